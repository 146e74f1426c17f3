"""``python llama_server.py MODEL PORT [N_PARALLEL [N_THREADS]]``: llama.cpp's server, by xllamacpp.

The package has the server as a library and no program of that name.
"""

from __future__ import annotations

import sys
import time

import xllamacpp


def main(model: str, port: str, n_parallel: str = "1", n_threads: str = "1") -> None:
    """Serve the model until this process is ended."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = int(n_parallel)
    params.n_ctx = 4096 * int(n_parallel)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(n_threads)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
