"""Made-up lines of tegrastats: one for each way of writing that releases r28 to r39 have."""

from __future__ import annotations

LINES = {
    "TX1 r28": (
        "RAM 1500/3995MB (lfb 12x4MB) SWAP 10/8192MB (cached 3MB) cpu [5%,off,12%,0%]@1734 "
        "EMC 3%@1600 APE 25 NVDEC 192 MSENC 716 GR3D 0%@998"
    ),
    "TX1 r32": (
        "RAM 512/3984MB (lfb 700x4MB) IRAM 0/252kB(lfb 252kB) CPU [1%@102,0%@102,0%@102,off] "
        "EMC_FREQ 7%@408 GR3D_FREQ 0%@76 APE 25 AO@40.5C CPU@-5C PMIC@100C VDD_IN 2500/2600"
    ),
    "TX2 r32": (
        "RAM 900/7850MB (lfb 1x512kB) CPU [4%@2035,off,off,0%@2035,1%@2034,0%@2035] SWAP "
        "149/1024MB (cached 7MB) EMC_FREQ 2%@1866 GR3D_FREQ 34%@1300 APE 150 MTS fg 0% bg 9% "
        "PLL@33.5C thermal@33.1C VDD_SYS_GPU 153/160 VDD_IN 1840/1900 NVENC 716 VDD_SYS_DDR 269/1"
    ),
    "Nano r32": (
        "RAM 1700/3956MB (lfb 100x4MB) SWAP 0/1978MB (cached 0MB) IRAM 0/252kB(lfb 252kB) CPU "
        "[7%@1224,0%@1224,3%@1224,7%@1224] EMC_FREQ 0% GR3D_FREQ 0% PLL@29C CPU@31C iwlwifi@44C "
        "POM_5V_IN 2000/2100 POM_5V_GPU 40/57 POM_5V_CPU 203/289"
    ),
    "AGX Xavier r32": (
        "RAM 1900/15692MB (lfb 3000x4MB) CPU [1%@1190,1%@1190] EMC_FREQ 1%@408 GR3D_FREQ 12%@318 "
        "AO@38C GPU@39.5C thermal@38.8C GPU 120/100 CPU 468/450 SOC 937/900 CV 0/0 VDDRQ 312/234 "
        "SYS5V 1458/1400"
    ),
    "Xavier NX r32": (
        "RAM 2300/7774MB (lfb 900x4MB) SWAP 0/3887MB (cached 0MB) CPU [14%@1190,1%@1344] "
        "EMC_FREQ 1%@1600 GR3D_FREQ 0%@114 VIC_FREQ 0%@115 NVENC 1%@115 APE 150 MTS fg 0% bg 3% "
        "AO@31C VDD_IN 3500/3569 VDD_CPU_GPU_CV 410/426 VDD_SOC 1107/1115"
    ),
    "AGX Orin r35": (
        "11-20-2025 08:49:47 RAM 13000/62780MB (lfb 424x4MB) SWAP 126/31390MB (cached 0MB) CPU "
        "[90%@2201,100%@2201,off,off] EMC_FREQ 1%@2133 GR3D_FREQ 14%@[407,408] GR3D2_FREQ 34%@0 "
        "VIC_FREQ 115 NVDLA0_FREQ @1600 APE 174 CV0@-256C CPU@77.281C tj@77.281C "
        "VDD_GPU_SOC 3150mW/2971mW VDD_CPU_CV 14312mW/12415mW VIN_SYS_5V0 4968mW/5048mW "
        "NC 0mW/0mW VDDQ_VDD2_1V8AO 1091mW/1092mW NC 1mW/2mW"
    ),
    "Orin NX r36": (
        "07-28-2026 20:28:41 RAM 3900/15656MB (lfb 6x4MB) CPU [1%@1984,7%@1984] GR3D_FREQ 0% "
        "cv0@47.156C cpu@52.375C VDD_IN 7956mW/7950mW VDD_CPU_GPU_CV 2363mW/2300mW "
        "VDD_SOC 2506mW/2500mW"
    ),
    "Orin Nano r36 root": (
        "04-19-2026 01:31:15 RAM 1200/7607MB (lfb 53x4MB) CPU [0%@1728,8%@1728] EMC_FREQ "
        "0%@3199 GR3D_FREQ 5%@[1019] NVDEC off NVJPG1 off VIC off OFA off APE 200 cpu@48.906C "
        "VDD_IN 6210mW/6204mW"
    ),
    "Thor r38": (
        "04-21-2026 15:50:51 RAM 105000/125772MB (lfb 34x4MB) CPU [0%@972,8%@972] EMC_FREQ "
        "0%@2750 GR3D_FREQ @[314,314,315] NVENC0_FREQ @314 VIC off PVA0_FREQ off APE 300 "
        "cpu@37.343C gpu@38.875C VDD_GPU -392mW/-12mW VIN 19780mW/19781mW"
    ),
    "Thor r39": (
        "08-08-2026 20:58:22 RAM 3400/125749MB (lfb 120x4MB) CPU [0%,5%,off]@2601 EMC_FREQ "
        "@4266 GR3D_FREQ 87%@[1574,1574,1574] cpu@49.75C/50.5C gpu@-256C/61C "
        "VDD_GPU 6330mW/6331mW/6332mW VIN 28906mW/14453mW/28907mW"
    ),
    "DRIVE Orin": (
        "RAM 264/28409MB (lfb 7004x4MB) CPU [0%@1817,...] EMC_FREQ @2133 GR3D_FREQ 0%@1109 "
        "APE 245 AUX@30C tj@41C"
    ),
    "script's epoch": (
        "1739645853.5189943---RAM 1101/7850MB (lfb 451x4MB) CPU [1%@1833] EMC_FREQ 0%@1062 "
        "VDD_IN 1983/1984"
    ),
    "script's date": "[2018-08-23 16:30:36] : RAM 4923/7850MB (lfb 360x4MB) CPU [33%@2034]",
}
