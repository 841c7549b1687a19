# SPDX-License-Identifier: Apache-2.0
"""Makes one layer of a product, its softmax and the product with values: attention whose scores
exist for one query of one head at a time.

Between the products there may be a table, such as the scale's, then a constant or a tensor that is
added, such as a mask. Keys and values may come through any Reshape and Move. Where a Pad puts rows
of zeros in front of a new row, as in a cache of earlier ones, they are rows that the window does
not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Graph, Node, Op, Tensor, Window
from ..ops import bind
from ..ops.add import Add
from ..ops.attention import MOST_HEADS, MOST_ROWS, Attention
from ..ops.binary import Binary
from ..ops.lookup import Lookup
from ..ops.matmul import MatMul
from ..ops.move import Move
from ..ops.pad import Pad
from ..ops.reshape import Reshape
from ..ops.softmax import Softmax
from ..quant import INT8_MAX, INT8_MIN, FloatSum
from .rewrite import (
    free_name,
    moved_from,
    rewrite_nodes,
    same_quantisation,
    sole_consumer,
    with_nodes,
    with_tensor,
)


def fuse_attention(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _fused)


@dataclass(frozen=True)
class _Bytes:
    """Bytes of a tensor in some order; `past`: rows of zeros in front of its only one."""

    tensor: str
    index: np.ndarray
    past: int = 0


@dataclass
class _Scores:
    """What is between the first product and the weights; mask: what is added, by head and row."""

    product: Node
    softmax: Softmax
    table: np.ndarray | None = None
    bias: np.ndarray | None = None
    mask: _Bytes | None = None
    sum: FloatSum | None = None


def _fused(graph: Graph, node: Node) -> Graph | None:
    if not isinstance(node.op, MatMul):
        return None
    scores = _scores(graph, node)
    if scores is None:
        return None
    first = scores.product
    assert isinstance(first.op, MatMul)
    query = _bytes(graph, first.inputs[0])
    keys = _lines(graph, first.inputs[1], first.op.transposed)
    values = _lines(graph, node.inputs[1], not node.op.transposed)
    if keys is None or values is None or keys.past != values.past:
        return None
    heads, lines, _ = query.index.shape
    rows = _rows_of(graph, query)
    if rows is None or (keys.past and rows > 1):
        return None
    sharing = _sharing(keys.index, values.index)
    keys, values = (replace(one, index=one.index[::sharing]) for one in (keys, values))
    if rows == 1:
        heads, sharing = heads * lines, sharing * lines
    seen = keys.past + keys.index.shape[1]
    parts = [_by_row(query, rows), _by_row(keys), _by_row(values)]
    pad = None
    if scores.mask is not None:
        graph, mask, pad = _mask(graph, scores.mask, rows, seen, keys.past)
        parts.append(mask)
    if heads > MOST_HEADS or seen > MOST_ROWS:
        return None
    op = Attention(
        heads,
        sharing,
        _window(keys.past, seen),
        first.op.requant,
        graph.tensors[first.outputs[0]].zero_point,
        scores.softmax,
        graph.tensors[node.inputs[0]].zero_point,
        node.op.requant,
        scores.table,
        _bias_of(scores, rows, seen),
        scores.sum,
        pad,
        act_min=node.op.act_min,
        act_max=node.op.act_max,
    )
    return _replaced(graph, node, op, parts)


def _window(past: int, seen: int) -> Window:
    """Of a cache, which moves on by a row a call, or of all rows, whichever row asks."""
    if past:
        return Window(kernel=(seen, 1), pad=(past, 0, 0, 0))
    return Window(kernel=(seen, 1), stride=(0, 1))


def _replaced(graph: Graph, node: Node, op: Attention, inputs: Sequence[_Bytes]) -> Graph | None:
    made: list[Node] = []
    names = []
    for one, what in zip(inputs, ("queries", "keys", "values", "mask"), strict=False):
        shape = one.index.shape
        source = graph.tensors[one.tensor]
        still = np.array_equal(one.index.ravel(), np.arange(source.bytes))
        move: Op | None = Reshape() if still else Move.of(one.index)
        if move is None:
            return None
        name = free_name(graph, f"{node.name}/{what}")
        graph = with_tensor(graph, replace(source, name=name, shape=shape))
        made.append(Node(name, move, (one.tensor,), (name,)))
        names.append(name)
    out = graph.tensors[node.outputs[0]]
    name = free_name(graph, f"{node.name}/rows")
    rows = inputs[0].index.shape[0]
    graph = with_tensor(graph, replace(out, name=name, shape=(rows, 1, out.bytes // rows)))
    made.append(Node(node.name, op, tuple(names), (name,)))
    back = _as_matrix(out, rows)
    if back is None:
        return None
    made.append(Node(f"{node.name}/matrix", back, (name,), node.outputs))
    nodes = [one for other in graph.nodes for one in (made if other is node else [other])]
    return with_nodes(graph, nodes)


def _as_matrix(out: Tensor, rows: int) -> Op | None:
    """From rows of heads to a matrix for each head."""
    if rows == 1:
        return Reshape()
    heads, _, width = out.shape
    index = np.arange(out.bytes).reshape(rows, heads, width)
    return Move.of(index.swapaxes(0, 1))


def _scores(graph: Graph, node: Node) -> _Scores | None:
    """What makes the weights that a product has as its first input."""
    steps = list(_behind(graph, node.inputs[0]))
    if not steps or not isinstance(steps[0][0].op, Softmax) or not _still(steps[0][1]):
        return None
    last, index = steps[-1]
    softmax = steps[0][0].op
    if not isinstance(last.op, MatMul) or not _still(index) or _bounded(last) or len(steps) < 2:
        return None
    found = _Scores(last, softmax)
    for step, index in steps[1:-1]:
        op, table = step.op, _table(graph, step)
        if table is not None:
            later = found.table
            found.table = table if later is None else later[table.astype(int) - INT8_MIN]
            continue
        total = _float_sum(op)
        if total is None or _bounded(step) or found.table is not None or found.sum is not None:
            return None
        shape = graph.tensors[step.outputs[0]].shape
        if isinstance(op, Binary) and op.constant is not None:
            found.bias = np.broadcast_to(op.constant, shape).ravel()[index]
        else:
            side = _score_side(graph, step)
            name = step.inputs[1 - side]
            of = graph.tensors[name]
            places = np.broadcast_to(np.arange(of.bytes).reshape(of.shape), shape)
            found.mask = _Bytes(name, places.ravel()[index])
            total = replace(total, a=total.b, b=total.a) if side else total
        found.sum = total
    return found if not _bounded(steps[0][0]) else None


def _float_sum(op: Op) -> FloatSum | None:
    """ONNX Runtime's sum of two tensors, or of one and a constant; None: another op."""
    if isinstance(op, Add):
        return op.sum if isinstance(op.sum, FloatSum) else None
    return op.sum if isinstance(op, Binary) and op.kind == "float_sum" else None


def _score_side(graph: Graph, node: Node) -> int:
    """Returns the input of a sum that products reach."""
    last = [*_behind(graph, node.inputs[0])]
    return 0 if last and isinstance(last[-1][0].op, MatMul) else 1


def _table(graph: Graph, node: Node) -> np.ndarray | None:
    """What an op makes of each byte, int8 (256,), if that is the same everywhere."""
    op = node.op
    if len(node.inputs) != 1:
        return None
    if isinstance(op, Binary):
        assert op.constant is not None
        if op.constant.min() < op.constant.max():
            return None
        op = replace(op, constant=op.constant.ravel()[:1].reshape(1, 1, 1))
    elif not op.elementwise:
        return None
    every = np.arange(INT8_MIN, INT8_MAX + 1).astype(np.int8).reshape(1, 1, -1)
    ends = (*node.inputs, *node.outputs)
    tensors = {name: replace(graph.tensors[name], shape=every.shape) for name in ends}
    layer = bind(replace(graph, tensors=tensors), replace(node, op=op))
    return layer.rows([every], 0, 1).ravel()


def _behind(graph: Graph, name: str) -> Iterator[tuple[Node, np.ndarray]]:
    """The nodes that make a tensor one by one, back to the first product or to what is nothing of
    attention, and where each byte of the tensor is in what they make."""
    index = np.arange(graph.tensors[name].bytes).reshape(graph.tensors[name].shape)
    while True:
        node = graph.producer(name)
        if node is None or sole_consumer(graph, name) is None:
            return
        op, arranged = node.op, moved_from(node, index)
        if arranged is not None:
            if not same_quantisation(graph.tensors[node.inputs[0]], graph.tensors[name]):
                return
            index = arranged
        elif len(index.ravel()) != graph.tensors[name].bytes:
            return
        else:
            yield node, index
            if len(node.inputs) > 1 and _float_sum(op) is None:
                return
            if not (op.by_channel or isinstance(op, Softmax)):
                return
        side = _score_side(graph, node) if len(node.inputs) > 1 else 0
        name = node.inputs[side]
        if graph.tensors[name].bytes != index.size:
            return


def _still(index: np.ndarray) -> bool:
    return np.array_equal(index.ravel(), np.arange(index.size))


def _bounded(node: Node) -> bool:
    return (node.op.act_min, node.op.act_max) != (INT8_MIN, INT8_MAX)


def _bytes(graph: Graph, name: str) -> _Bytes:
    """Where the bytes of a tensor come from, through whatever arranges them anew."""
    tensor = graph.tensors[name]
    return _back(graph, _Bytes(name, np.arange(tensor.bytes).reshape(tensor.shape)))


def _back(graph: Graph, at: _Bytes) -> _Bytes:
    node = graph.producer(at.tensor)
    while node is not None:
        index = moved_from(node, at.index)
        name = node.inputs[0] if node.inputs else at.tensor
        if index is None or not same_quantisation(graph.tensors[name], graph.tensors[at.tensor]):
            break
        at = _Bytes(name, index)
        node = graph.producer(at.tensor)
    return at


def _lines(graph: Graph, name: str, by_line: bool) -> _Bytes | None:
    """Keys or values by head, line and place in it, from the tensor that has them as lines, or
    else as columns."""
    at = _bytes(graph, name)
    if not by_line:
        at = replace(at, index=at.index.swapaxes(1, 2))
    node = graph.producer(at.tensor)
    if node is None or not isinstance(node.op, Pad):
        return at
    return _cached(graph, node, at.index)


def _cached(graph: Graph, node: Node, index: np.ndarray) -> _Bytes | None:
    """Lines of which all but the last are rows of zeros, as far as heads see them."""
    assert isinstance(node.op, Pad)
    source, padded = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    (top, bottom), *others = node.op.amounts
    zeros = node.op.value == source.zero_point and same_quantisation(source, padded)
    one = source.shape[0] == 1 and bottom == 0 and others == [(0, 0), (0, 0)]
    count = index.shape[1]
    rows, places = index // padded.row_bytes, index % padded.row_bytes
    latest = (rows == np.arange(top + 1 - count, top + 1)[:, None]).all()
    if not (zeros and one and latest and (places == places[:, -1:]).all()):
        return None
    return replace(_back(graph, _Bytes(source.name, places[:, -1:])), past=count - 1)


def _rows_of(graph: Graph, query: _Bytes) -> int | None:
    """Rows that ask: each line of a head is of another, or all are heads of one row. None if they
    are neither."""
    lines: int = query.index.shape[1]
    size = graph.tensors[query.tensor].bytes
    rows, rest = query.index // max(size // lines, 1), size % lines
    if lines > 1 and rest == 0 and (rows == np.arange(lines)[:, None]).all():
        return lines
    return 1 if graph.tensors[query.tensor].shape[0] == 1 or lines == 1 else None


def _sharing(keys: np.ndarray, values: np.ndarray) -> int:
    """Heads next to each other that have the same keys and values."""
    heads = len(keys)
    for count in range(heads, 1, -1):
        own = np.arange(heads) // count * count
        alike = all(np.array_equal(one, one[own]) for one in (keys, values))
        if heads % count == 0 and alike:
            return count
    return 1


def _by_row(one: _Bytes, rows: int = 0) -> _Bytes:
    """Heads side by side: those of a line, or of everything if there is one row."""
    index = one.index
    if rows != 1:
        index = index.swapaxes(0, 1)
    shape = (rows or index.shape[0], 1, -1)
    return replace(one, index=index.reshape(shape))


def _bias_of(scores: _Scores, rows: int, seen: int) -> np.ndarray | None:
    """(1 or heads, 1 or rows, seen), from (H, M, seen)."""
    if scores.bias is None:
        return None
    return _once(scores.bias if rows > 1 else scores.bias.reshape(-1, 1, seen))


def _once(values: np.ndarray) -> np.ndarray:
    """One of all heads, and of all rows, if they are alike."""
    for axis in (0, 1):
        first = values.take([0], axis)
        values = first if (values == first).all() else values
    return values


def _mask(
    graph: Graph, mask: _Bytes, rows: int, seen: int, past: int
) -> tuple[Graph, _Bytes, int | None]:
    """The bias of scores as bytes of a tensor: a row for each row or for all, for each head or for
    all. If it has a byte of each earlier call in front of its latest, that one and the pad."""
    index = _once(mask.index if rows > 1 else mask.index.reshape(-1, 1, seen))
    mask = _back(graph, replace(mask, index=index))
    rest = _latest(graph, mask) if past and len(index) == 1 else None
    if rest is None:
        count = mask.index.shape[1]
        return graph, replace(mask, index=mask.index.swapaxes(0, 1).reshape(count, 1, -1)), None
    latest, pad, table = rest
    if table is not None:
        name = free_name(graph, f"{mask.tensor}/latest")
        shape = graph.tensors[latest.tensor].shape
        graph = with_tensor(graph, replace(graph.tensors[mask.tensor], name=name, shape=shape))
        node = Node(name, Lookup(table), (latest.tensor,), (name,))
        place = next(i for i, one in enumerate(graph.nodes) if latest.tensor in one.outputs) + 1
        graph = with_nodes(graph, [*graph.nodes[:place], node, *graph.nodes[place:]])
        latest = replace(latest, tensor=name)
    return graph, latest, pad


def _latest(graph: Graph, mask: _Bytes) -> tuple[_Bytes, int, np.ndarray | None] | None:
    """The last byte of a mask, whose others are those of earlier calls, the byte that was in front
    of the first, and what a table makes of both."""
    table: np.ndarray | None = None
    while (node := graph.producer(mask.tensor)) is not None and not isinstance(node.op, Pad):
        step = _table(graph, node)
        if step is None:
            return None
        table = step if table is None else table[step.astype(int) - INT8_MIN]
        mask = _back(graph, replace(mask, tensor=node.inputs[0]))
    if node is None:
        return None
    assert isinstance(node.op, Pad)
    found = _cached(graph, node, mask.index.reshape(1, -1, 1))
    if found is None or found.past + 1 != mask.index.size:
        return None
    pad = node.op.value
    return found, pad if table is None else int(table[pad - INT8_MIN]), table
