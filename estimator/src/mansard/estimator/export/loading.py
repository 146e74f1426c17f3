"""From a request to a network with inputs, whatever it comes from."""

from __future__ import annotations

import msgspec

from mansard.estimator.export.guesses import guess_inputs, inputs_from_specs
from mansard.estimator.export.network import Network, foreign_code
from mansard.estimator.export.python_source import build_from_python
from mansard.estimator.export.request import ExportRequest
from mansard.estimator.export.sources import PythonSource, parse_source
from mansard.estimator.export.torchvision_source import build_from_torchvision
from mansard.estimator.export.transformers_source import build_from_transformers


def load_network(request: ExportRequest) -> Network:
    """The network that ``request`` names, ready to be traced.

    Raises UsageError, ModelError for whatever foreign code raises, or MansardError for
    a library that is missing.
    """
    network = _build(request)
    with foreign_code("the network"):
        network.module.eval()
        network.module.cpu()
    if request.inputs:
        inputs = inputs_from_specs(network.module, request.inputs, network.inputs)
        return msgspec.structs.replace(network, inputs=inputs)
    if network.inputs:
        return network
    inputs, note = guess_inputs(network.module)
    return msgspec.structs.replace(network, inputs=inputs, notes=(*network.notes, note))


def _build(request: ExportRequest) -> Network:
    source = parse_source(request.source)
    settings = request.settings
    if isinstance(source, PythonSource):
        module = build_from_python(source, settings)
        return Network(type(module).__name__, module, ())
    if source.library == "transformers":
        return build_from_transformers(source.name, settings)
    return build_from_torchvision(source.name, settings)
