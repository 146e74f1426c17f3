"""All operators outside ONNX's own domain that are counted, in one list."""

from __future__ import annotations

from tests.estimator.contrib_attention_cases import MULTIHEAD, PROJECTED
from tests.estimator.contrib_decoder_cases import GROUPED
from tests.estimator.contrib_internal_cases import INTERNAL
from tests.estimator.contrib_language_cases import LANGUAGE
from tests.estimator.contrib_layer_cases import CONVOLUTIONS, STATES
from tests.estimator.contrib_matmul_cases import EXPERTS, PACKED, PRODUCTS, QUANTISATION
from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_other_cases import LEGACY, MOVEMENT, POSITIONS
from tests.estimator.contrib_plain_cases import ELEMENTWISE, NORMALISATIONS
from tests.estimator.contrib_tensorrt_cases import PLUGINS, QUANTIZERS
from tests.estimator.ml_cases import FEATURES, MODELS, TREES

OPERATORS: list[Operator] = [
    *(*ELEMENTWISE, *NORMALISATIONS, *PRODUCTS, *PACKED, *EXPERTS, *QUANTISATION),
    *(*PROJECTED, *MULTIHEAD, *GROUPED, *CONVOLUTIONS, *INTERNAL, *STATES),
    *(*POSITIONS, *MOVEMENT, *LEGACY, *PLUGINS, *QUANTIZERS),
    *(*FEATURES, *MODELS, *TREES, *LANGUAGE),
]

# Domains under which exporters write the plugins that OPERATORS has without one.
PLUGIN_DOMAINS = ("TRT", "trt.plugins")


def name_of(case: Operator) -> str:
    """How a test with this case is called."""
    return case.name.replace("com.microsoft.", "")
