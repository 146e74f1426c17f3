"""The published members of the classes and enumerations of TensorRT's bindings, by version.

Those of 8.6 are of its archived Python documentation and of python/src in NVIDIA/TensorRT,
release/8.6; those of 10.3 of release/10.3.
"""

from __future__ import annotations

VERSIONS = ("8.6.2", "10.3.0")

_BOTH = {
    "Builder": "create_network platform_has_tf32 platform_has_fast_fp16 platform_has_fast_int8"
    " max_DLA_batch_size num_DLA_cores gpu_allocator create_optimization_profile error_recorder"
    " create_builder_config build_serialized_network is_network_supported logger max_threads reset"
    " get_plugin_registry",
    "IBuilderConfig": "avg_timing_iterations int8_calibrator engine_capability"
    " set_memory_pool_limit get_memory_pool_limit flags default_device_type DLA_core clear_flag"
    " set_flag get_flag quantization_flags clear_quantization_flag set_quantization_flag"
    " get_quantization_flag reset profile_stream add_optimization_profile set_calibration_profile"
    " get_calibration_profile num_optimization_profiles set_device_type get_device_type"
    " is_device_type_set reset_device_type can_run_on_DLA profiling_verbosity algorithm_selector"
    " set_tactic_sources get_tactic_sources create_timing_cache set_timing_cache get_timing_cache"
    " set_preview_feature get_preview_feature builder_optimization_level"
    " hardware_compatibility_level plugins_to_serialize max_aux_streams",
    "IOptimizationProfile": "set_shape get_shape set_shape_input get_shape_input"
    " extra_memory_target",
    "INetworkDefinition": "name num_inputs num_outputs num_layers get_input get_output get_layer"
    " mark_output unmark_output remove_tensor has_implicit_batch_dimension error_recorder",
    "ITensor": "name shape dtype location is_network_input is_network_output is_shape_tensor"
    " is_execution_tensor dynamic_range set_dynamic_range reset_dynamic_range allowed_formats"
    " broadcast_across_batch get_dimension_name set_dimension_name",
    "ILayer": "name type num_inputs num_outputs precision precision_is_set reset_precision"
    " get_input set_input get_output set_output_type get_output_type output_type_is_set"
    " reset_output_type metadata",
    "IHostMemory": "dtype nbytes",
    "ITimingCache": "serialize combine reset",
    "OnnxParser": "parse parse_from_file num_errors get_error clear_errors supports_operator"
    " flags set_flag get_flag clear_flag get_used_vc_plugin_libraries",
    "ParserError": "code desc file line func node",
    "Runtime": "deserialize_cuda_engine DLA_core num_DLA_cores gpu_allocator error_recorder logger"
    " max_threads temporary_directory tempfile_control_flags get_plugin_registry load_runtime"
    " engine_host_code_allowed",
    "ICudaEngine": "has_implicit_batch_dimension num_layers serialize create_execution_context"
    " create_execution_context_without_device_memory device_memory_size refittable name"
    " num_optimization_profiles engine_capability num_io_tensors get_tensor_name get_tensor_mode"
    " is_shape_inference_io get_tensor_shape get_tensor_dtype get_tensor_location"
    " get_tensor_bytes_per_component get_tensor_components_per_element get_tensor_format"
    " get_tensor_format_desc get_tensor_vectorized_dim get_tensor_profile_shape error_recorder"
    " tactic_sources profiling_verbosity create_engine_inspector hardware_compatibility_level"
    " num_aux_streams",
    "IExecutionContext": "execute_v2 debug_sync profiler engine name device_memory"
    " active_optimization_profile get_tensor_strides set_input_shape get_tensor_shape"
    " set_tensor_address get_tensor_address set_input_consumed_event get_input_consumed_event"
    " set_output_allocator get_output_allocator get_max_output_size temporary_allocator"
    " infer_shapes execute_async_v3 all_binding_shapes_specified all_shape_inputs_specified"
    " set_optimization_profile_async error_recorder enqueue_emits_profile report_to_profiler"
    " persistent_cache_limit nvtx_verbosity set_aux_streams",
    "EngineInspector": "execution_context get_layer_information get_engine_information"
    " error_recorder",
}
_ONLY = {
    "8.6.2": {
        "Builder": "max_batch_size build_engine",
        "IBuilderConfig": "min_timing_iterations max_workspace_size",
        "OnnxParser": "supports_model parse_with_weight_descriptors",
        "ICudaEngine": "num_bindings get_binding_name get_binding_index binding_is_input"
        " get_binding_shape get_binding_dtype max_batch_size get_location get_profile_shape"
        " get_profile_shape_input is_shape_binding is_execution_binding"
        " get_binding_bytes_per_component get_binding_components_per_element get_binding_format"
        " get_binding_format_desc get_binding_vectorized_dim",
        "IExecutionContext": "execute execute_async execute_async_v2 get_strides set_binding_shape"
        " get_binding_shape set_shape_input get_shape",
    },
    "10.3.0": {
        "IBuilderConfig": "progress_monitor runtime_platform",
        "INetworkDefinition": "flags get_flag builder mark_debug unmark_debug is_debug_tensor",
        "ITimingCache": "",
        "OnnxParser": "supports_model supports_model_v2 num_subgraphs is_subgraph_supported"
        " get_subgraph_nodes parse_with_weight_descriptors get_layer_output_tensor",
        "ParserError": "node_name node_operator local_function_stack local_function_stack_size",
        "ICudaEngine": "create_serialization_config serialize_with_config device_memory_size_v2"
        " get_device_memory_size_for_profile get_device_memory_size_for_profile_v2"
        " get_tensor_profile_values weight_streaming_budget weight_streaming_budget_v2"
        " minimum_weight_streaming_budget streamable_weights_size is_debug_tensor"
        " get_weight_streaming_automatic_budget weight_streaming_scratch_memory_size",
        "IExecutionContext": "set_device_memory update_device_memory_size_for_shapes"
        " set_debug_listener get_debug_listener set_tensor_debug_state get_debug_state"
        " set_all_tensors_debug_state",
    },
}
# Classes that a program derives its own from; their members are what it defines.
_BASES = (
    "ILogger IProfiler IOutputAllocator IInt8Calibrator IInt8LegacyCalibrator"
    " IInt8EntropyCalibrator IInt8EntropyCalibrator2 IInt8MinMaxCalibrator"
)
_ONLY_BASES = {"8.6.2": "", "10.3.0": "IProgressMonitor"}

_ENUMS = {
    "DataType": "FLOAT HALF INT8 INT32 BOOL UINT8 FP8",
    "BuilderFlag": "FP16 INT8 DEBUG GPU_FALLBACK REFIT DISABLE_TIMING_CACHE TF32 SPARSE_WEIGHTS"
    " SAFETY_SCOPE OBEY_PRECISION_CONSTRAINTS PREFER_PRECISION_CONSTRAINTS DIRECT_IO"
    " REJECT_EMPTY_ALGORITHMS VERSION_COMPATIBLE EXCLUDE_LEAN_RUNTIME FP8",
    "NetworkDefinitionCreationFlag": "EXPLICIT_BATCH",
    "ProfilingVerbosity": "LAYER_NAMES_ONLY DETAILED NONE",
    "MemoryPoolType": "WORKSPACE DLA_MANAGED_SRAM DLA_LOCAL_DRAM DLA_GLOBAL_DRAM TACTIC_DRAM",
    "TensorIOMode": "NONE INPUT OUTPUT",
    "TensorLocation": "DEVICE HOST",
    "LayerInformationFormat": "ONELINE JSON",
    "DeviceType": "GPU DLA",
    "EngineCapability": "STANDARD SAFETY DLA_STANDALONE",
    "HardwareCompatibilityLevel": "NONE AMPERE_PLUS",
    "TacticSource": "CUBLAS CUBLAS_LT CUDNN EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS",
    "OnnxParserFlag": "NATIVE_INSTANCENORM",
    "CalibrationAlgoType": "LEGACY_CALIBRATION ENTROPY_CALIBRATION ENTROPY_CALIBRATION_2"
    " MINMAX_CALIBRATION",
    "LayerType": "CONVOLUTION CAST ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION"
    " CONCATENATION ELEMENTWISE PLUGIN UNARY PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY"
    " RAGGED_SOFTMAX CONSTANT IDENTITY PLUGIN_V2 SLICE SHAPE PARAMETRIC_RELU RESIZE TRIP_LIMIT"
    " RECURRENCE ITERATOR LOOP_OUTPUT SELECT FILL QUANTIZE DEQUANTIZE CONDITION"
    " CONDITIONAL_INPUT CONDITIONAL_OUTPUT SCATTER EINSUM ASSERTION ONE_HOT NON_ZERO GRID_SAMPLE"
    " NMS REVERSE_SEQUENCE NORMALIZATION",
}
_ONLY_ENUMS = {
    "8.6.2": {
        "BuilderFlag": "STRICT_TYPES ENABLE_TACTIC_HEURISTIC",
        "NetworkDefinitionCreationFlag": "EXPLICIT_PRECISION",
        "ProfilingVerbosity": "DEFAULT VERBOSE",
        "LayerType": "RNN_V2 FULLY_CONNECTED",
    },
    "10.3.0": {
        "DataType": "BF16 INT64 INT4",
        "BuilderFlag": "BF16 EDITABLE_TIMING_CACHE ERROR_ON_TIMING_CACHE_MISS WEIGHTLESS"
        " DISABLE_COMPILATION_CACHE STRIP_PLAN REFIT_IDENTICAL WEIGHT_STREAMING INT4"
        " REFIT_INDIVIDUAL",
        "NetworkDefinitionCreationFlag": "STRONGLY_TYPED",
        "MemoryPoolType": "TACTIC_SHARED_MEMORY",
        "LayerType": "PLUGIN_V3",
        "ExecutionContextAllocationStrategy": "STATIC ON_PROFILE_CHANGE USER_MANAGED",
    },
}


def members(version: str) -> dict[str, tuple[str, ...]]:
    """The members of each class of ``version``."""
    return _joined(_BOTH, _ONLY[version])


def bases(version: str) -> tuple[str, ...]:
    """The classes of ``version`` that a program derives its own from."""
    return tuple(f"{_BASES} {_ONLY_BASES[version]}".split())


def enums(version: str) -> dict[str, tuple[str, ...]]:
    """The values of each enumeration of ``version``."""
    return _joined(_ENUMS, _ONLY_ENUMS[version])


def _joined(both: dict[str, str], only: dict[str, str]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys([*both, *only])
    return {name: tuple(f"{both.get(name, '')} {only.get(name, '')}".split()) for name in names}
