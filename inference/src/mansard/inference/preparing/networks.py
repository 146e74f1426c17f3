"""Prepared networks: from a model to the files that an engine loads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.core.errors import InputError, ModelError, UsageError
from mansard.core.hashing import file_hash
from mansard.core.precision import parse_precision
from mansard.core.records import WHOLE, Copies, ModelScore, NetworkPart, Waiting
from mansard.core.storage.files import make_folder, open_file, storage_errors
from mansard.core.text import first_of, listed, printable
from mansard.estimator import Given, Settings, score_loaded, zoo
from mansard.estimator.scoring import load_network, naming_model, settled, with_defaults
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.dimensions import find_dimensions
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.inference.builds import engine_key
from mansard.inference.plan import BuildSettings, BuildTrial, InputSpec, NetworkTrial
from mansard.inference.preparing import writing
from mansard.inference.preparing.arrays import (
    check_guessable,
    find_readers,
    given_by_arrays,
    guess,
    notes_on,
    spec_of_array,
)
from mansard.inference.preparing.conversion import check_convertible
from mansard.inference.preparing.labelling import Labelled, check_numbers, label_nodes
from mansard.inference.preparing.quantising import Form, Int8
from mansard.inference.preparing.samples import SampleChoice, random_samples, write_samples
from mansard.inference.preparing.sources import link, name_by_content
from mansard.inference.preparing.writing import Conversion, Files, ModelDraft, draft

if TYPE_CHECKING:
    import onnx

    from mansard.estimator.model import Model
    from mansard.estimator.tensors import Tensor
    from mansard.inference.npz import Array
    from mansard.inference.plan import PreparedSamples

_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
_STEM_CHARACTERS = 60
_SHOWN = 4  # inputs named in words
_BATCH = "batch"  # the name of an open batch without a name in the file


@dataclass(frozen=True)
class Calibrating:
    """How a network becomes int8. ``form``: for which engines.

    ``samples``: chooses, from the inputs, the samples for the ranges; None: none were given, which
    is enough for a network with random weights.
    """

    form: Form = "operators"
    samples: Callable[[tuple[InputSpec, ...]], SampleChoice | None] = lambda _: None


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a network are made from."""

    source: Path | str  # an ONNX file, or the name of a network of the zoo
    stem: str  # that the names of its files begin with
    seed: int  # of weights that it lacks
    shapes: dict[str, tuple[int, ...]]  # of inputs and outputs
    inputs: Path | None  # .npz
    conversion: Conversion | None  # to another precision
    specs: tuple[InputSpec, ...]
    calibration: SampleChoice | None  # of int8


class PreparedNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A network that can be written for an engine; fields as those of NetworkTrial.

    ``score`` is what is predicted from, of the same model hash, precision, batch and dimensions;
    ``LayerScore.index`` is in the names of the file's nodes. ``notes``: what the user should know,
    a line each.
    """

    model: str
    model_hash: str
    file: str
    file_hash: str
    inputs_file: str
    inputs_hash: str
    input_specs: tuple[InputSpec, ...]
    inputs: str
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    score: ModelScore
    notes: tuple[str, ...]
    recipe: Recipe
    files: Files
    part: NetworkPart = WHOLE

    @property
    def calibration(self) -> PreparedSamples | None:
        """The samples that int8 ranges are taken from, in the folder of files; None: no int8."""
        samples = self.recipe.calibration
        return None if samples is None else samples.file

    @property
    def calibration_words(self) -> str:
        """The calibration samples in words; empty: nothing is calibrated."""
        conversion = self.recipe.conversion
        int8 = None if conversion is None else conversion.int8
        return "" if int8 is None else int8.words

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of outputs where they are known, in order."""
        inputs = {spec.name for spec in self.input_specs}
        shapes = self.recipe.shapes
        return {name: shape for name, shape in shapes.items() if name not in inputs}

    def class_output(self) -> tuple[str, int]:
        """The first output with scores of classes, and how many; raises UsageError without one."""
        batch = self.input_specs[0].shape[:1] if self.input_specs else ()
        if batch and self.batch is not None and batch != (self.batch,):
            raise UsageError(
                f"input {self.input_specs[0].name!r} of {self.model} begins with {batch[0]}, which "
                f"is not a batch: one call takes {self.batch} sample(s)",
                fix="leave --data out, or export the network with a batch in front",
            )
        for name, shape in self.outputs.items():
            n_classes = max(shape[1:], default=0)
            if shape[:1] == batch and n_classes > 1 and n_classes == prod(shape[1:]):
                return name, n_classes
        offered = ", ".join(f"{name} {list(shape)}" for name, shape in self.outputs.items())
        raise UsageError(
            f"{self.model} has no output of scores for classes, but {offered or 'none known'}",
            fix="accuracy is that of classifiers; leave --data out",
        )

    def trial(
        self,
        *,
        engine: str,
        provider: str,
        n_threads: int | None = None,
        copies: Copies = "none",
        waiting: Waiting = "spin",
        with_graph: bool = False,
        with_layers: bool = True,
        engine_file: str = "",
    ) -> NetworkTrial:
        """The trial of a plan that runs the network in this way."""
        shared: dict[str, Any] = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if name in NetworkTrial.__struct_fields__
        }
        unknown = {} if n_threads is not None else {"n_threads": "as many as the mode has CPUs"}
        if self.batch is None:
            unknown["batch"] = self.score.unknown["batch"]
        return NetworkTrial(
            unknown=unknown,
            engine=engine,
            provider=provider,
            n_threads=n_threads,
            copies=copies,
            waiting=waiting,
            with_graph=with_graph,
            with_layers=with_layers,
            engine_file=engine_file,
            **shared,
        )

    def build_trial(
        self,
        *,
        engine: str,
        version: str,
        device: str,
        settings: BuildSettings,
        precision: str | None = None,
        batches: Sequence[int | None] = (),
    ) -> BuildTrial:
        """The engine file that it is run from, as one trial of a run of builds.

        ``version``: of the engine; ``device``: that the file is for, in words; ``precision``: that
        the builder brings it to, by default its own; ``batches``: that the file serves, where its
        batch is open.
        """
        shared: dict[str, Any] = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if name in BuildTrial.__struct_fields__
        }
        shared["precision"] = precision or self.precision
        unknown = {} if self.batch is not None else {"batch": self.score.unknown["batch"]}
        if batches:
            unknown = {"batch": f"it is open, for {listed([str(size) for size in batches])}"}
            shared["batch"] = None
        trial = BuildTrial(
            unknown=unknown, engine=engine, settings=settings, engine_file="", **shared
        )
        key = engine_key(trial, version, device)
        name = f"{self.recipe.stem}_{settings.dataset}_{trial.precision}-{key}.engine"
        return msgspec.structs.replace(trial, engine_file=name)


def prepare(
    source: Path | str,
    *,
    seed: int,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Path | None = None,
    precision: str | None = None,
    calibrating: Calibrating = Calibrating(),
    is_batch_open: bool = False,
) -> PreparedNetwork:
    """Prepare the network ``source`` for an engine; ``write`` writes its files.

    ``source``: an ONNX file, or the name of a network of the zoo, which has its usual dimensions
    where ``dims`` gives none. ``batch`` and ``dims`` as in ``estimator.score``; where the batch is
    open and nothing gives it, it is 1. ``seed``: of the weights where the file has none.
    ``inputs``: an .npz of arrays for some or all inputs; dimensions that are open follow from
    these. ``precision``: None is the file's own; a network of fp32 is converted to fp16, bf16
    or int8. It keeps its model hash and the indexes of its layers, and its score is that of the
    file at this precision. ``calibrating``: how it becomes int8.
    ``is_batch_open``: the file keeps an open batch, for an engine file of a range of them; the
    inputs are those of ``batch``.

    The same input gives the same files, called by the hash of what they are made of. Raises
    ModelError, UsageError, InputError or StorageError.
    """
    loaded = load_network(source)
    if loaded.drawn:
        raise UsageError(
            f"{loaded.where}: a language model runs in a server",
            fix="measure its server: mansard measure --server URL, or --start COMMAND",
        )
    arrays: dict[str, Array] = {}
    readers = find_readers(loaded.model)
    with naming_model(loaded.where):
        stated = Given(batch, dict(dims or {}))
        if inputs is not None:
            arrays, stated = given_by_arrays(loaded.model, readers, stated, inputs)
        stated = settled(loaded, with_defaults(loaded, stated))
        names = (model_input.name for model_input in loaded.model.inputs)
        check_guessable([name for name in names if name not in arrays], readers)
    score = score_loaded(loaded, Settings(stated, allow_unknown=True))
    is_converted = precision is not None and precision != score.precision
    if precision is not None and is_converted:
        with naming_model(loaded.where):
            wanted = parse_precision(precision)
            check_convertible(score.precision, precision)
        score = score_loaded(loaded, Settings(stated, wanted, allow_unknown=True))
    with naming_model(loaded.where):
        binding = bind(loaded.model, stated)
        network = infer_shapes(loaded.model, binding, loaded.prepared)
        specs = tuple(
            spec_of_array(tensor, arrays[tensor.name], readers, network.tensors, inputs)
            if inputs is not None and tensor.name in arrays
            else guess(tensor, readers, network.tensors)
            for tensor in binding.tensors.values()
        )
        labelled, digest = _read(source)
        check_numbers(labelled, loaded.model)
        is_int8 = is_converted and precision == "int8"
        given_data = calibrating.samples(specs) if is_int8 else None
        conversion, calibration = None, None
        if is_converted and precision is not None:
            conversion, calibration = _conversion(
                precision, specs, given_data, calibrating.form, seed
            )
        recipe = Recipe(
            source=source,
            stem=_file_stem(loaded.name),
            seed=seed,
            shapes=_open_shapes(loaded.model, network.tensors)
            if is_batch_open
            else _shapes(labelled.model.graph, network.tensors),
            inputs=inputs,
            conversion=conversion,
            specs=specs,
            calibration=calibration,
        )
        files = _drafted(recipe, labelled.model, digest).files
        if calibration is not None and given_data is None and not files.is_drawn:
            raise UsageError(
                "it has weights of its own, so int8 needs data to calibrate with",
                fix="give --data or --calibration; --calibration random times it, and nothing more",
            )
        inputs_file = _inputs_file(recipe)
    return PreparedNetwork(
        model=loaded.name,
        model_hash=loaded.model_hash,
        file=files.file,
        file_hash=files.file_hash,
        inputs_file=inputs_file,
        inputs_hash=inputs_file.split("-")[-1].removesuffix(".npz"),
        input_specs=specs,
        inputs=in_words(specs),
        precision=score.precision,
        batch=score.batch,
        dimensions=score.dimensions,
        score=score,
        notes=(*files.notes, *notes_on(arrays), *score.general_notes),
        recipe=recipe,
        files=files,
    )


def _conversion(
    precision: str,
    specs: tuple[InputSpec, ...],
    chosen: SampleChoice | None,
    form: Form,
    seed: int,
) -> tuple[Conversion, SampleChoice | None]:
    """The conversion to ``precision``, and the samples that it is calibrated with."""
    if precision != "int8":
        return Conversion(precision=precision), None
    data = chosen or random_samples(specs, seed)
    return Conversion(precision=precision, int8=Int8(form=form, calibration=data.file)), data


def write(network: PreparedNetwork, folder: Path) -> tuple[str, ...]:
    """Write the missing files of ``network`` into ``folder``; returns the names of all.

    Raises ModelError, StorageError, and InputError for a file that has changed since it was read.
    """
    recipe = network.recipe
    with naming_model(str(recipe.source)):
        make_folder(folder)
        labelled, digest = _read(recipe.source)
        draft = _drafted(recipe, labelled.model, digest)
        if (draft.files, _inputs_file(recipe)) != (network.files, network.inputs_file):
            raise InputError(
                "it was changed since it was looked at",
                where=str(recipe.source),
                fix="run the same command again",
            )
        if recipe.calibration is not None:
            write_samples(recipe.calibration, folder)
        writing.write(draft, folder)
        if recipe.inputs is not None and not (folder / network.inputs_file).exists():
            link(recipe.inputs, folder, network.inputs_file)
    # ONNX Runtime has the ranges in the graph; TensorRT may take its own from the samples.
    int8 = None if recipe.conversion is None else recipe.conversion.int8
    samples = int8.calibration.file if int8 is not None and int8.form == "tensorrt" else ""
    names = (*network.files.made, *network.files.linked, network.inputs_file, samples)
    return tuple(filter(None, names))


def _drafted(recipe: Recipe, model: onnx.ModelProto, digest: str) -> ModelDraft:
    source = recipe.source
    _fix_dimensions(model.graph, recipe.shapes)
    return draft(
        model,
        stem=recipe.stem,
        seed=recipe.seed,
        source=None if isinstance(source, str) else source,
        source_hash=digest,
        made_for=recipe.shapes,
        conversion=recipe.conversion,
        specs=recipe.specs,
    )


def _inputs_file(recipe: Recipe) -> str:
    return "" if recipe.inputs is None else name_by_content(recipe.inputs, recipe.stem, "npz")


def _read(source: Path | str) -> tuple[Labelled, str]:
    """The model with labelled nodes, without weights in other files, and the hash of its file."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if isinstance(source, str):
        content = zoo.read(source)
    else:
        with storage_errors(source), open_file(source) as stream:
            content = stream.read()
    try:
        return label_nodes(onnx.load_from_string(content)), file_hash(content)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise ModelError(f"the onnx package cannot read it ({error})") from error


def _shapes(graph: onnx.GraphProto, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs and outputs that are tensors of known shape."""
    return {
        value.name: tensors[value.name].shape
        for value in (*graph.input, *graph.output)
        if value.type.WhichOneof("value") == "tensor_type"
        and value.name in tensors
        and tensors[value.name].unknown is None
    }


def _open_shapes(model: Model, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs, with -1 for an open batch. Outputs stay as they are in the file."""
    dimensions = find_dimensions(model, Given())
    return {
        name: tuple(
            -1 if dim.fixed is None and dim.symbol in dimensions.batch_symbols else size
            for dim, size in zip(dims, tensors[name].shape, strict=True)
        )
        for name, dims in dimensions.by_input.items()
        if tensors[name].unknown is None
    }


def _fix_dimensions(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write ``shapes`` over the dimensions of inputs and outputs; -1: one that stays open.

    Shapes that the file notes for other tensors may be for other dimensions, so they are removed.
    """
    del graph.value_info[:]
    for declared in (*graph.input, *graph.output):
        if declared.name in shapes:
            dims = declared.type.tensor_type.shape.dim
            before = [dim.dim_param for dim in dims]
            del dims[:]
            for axis, size in enumerate(shapes[declared.name]):
                dims.add(dim_param=before[axis] or _BATCH) if size < 0 else dims.add(dim_value=size)


def _file_stem(name: str) -> str:
    """``name`` as a valid file name on any system."""
    return _SAFE.sub("_", name).strip("._")[:_STEM_CHARACTERS] or "model"


def in_words(specs: Iterable[InputSpec]) -> str:
    """What the inputs are fed: ``input_ids: integers from 0 to 30521; mask: ones``."""
    by_words: dict[str, list[str]] = {}
    for spec in specs:
        by_words.setdefault(_words(spec), []).append(printable(spec.name))
    return "; ".join(f"{first_of(names, _SHOWN)}: {words}" for words, names in by_words.items())


def _words(spec: InputSpec) -> str:
    if spec.fill == "uniform":
        return f"random numbers from {spec.low:g} to {spec.high:g}"
    if spec.fill == "integers" and spec.high - spec.low <= 1:
        return f"{spec.low:.0f}"
    if spec.fill == "integers":
        return f"random integers from {spec.low:.0f} to {spec.high - 1:.0f}"
    return "ones" if spec.fill == "ones" else "as in the file of inputs"
