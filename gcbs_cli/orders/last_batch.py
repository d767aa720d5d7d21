"""The rows of a short last batch beside which all others can be kept apart, by one or two kinds of labels.

Rows are edges between a label of the first kind and one of the second, and batches are colours: no two edges of a label
may have the same. A bipartite graph needs no more colours than its largest degree (König 1916), and they can be equally
large (Folkman and Fulkerson 1969). So the last batch has to hold every label with a row for each batch, no more.
"""

import numpy as np

from gcbs_cli.system.arrays import Ints


def with_last_batch(perm: Ints, labels: Ints, full: int, size: int) -> Ints:
    """(N,) the order with `size` such rows after its full batches, few others moved; unchanged where there are none.

    labels: (1 or 2, N) below 2N, a row without a label has one of its own; none with more rows than there are batches.

    A flow from labels to labels of exactly `size`, with a lower bound of 1 at needed labels: the least that must pass
    an edge leaves its end for a second sink, and enters at its other end from a second source.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    count = 4 * len(perm)
    lines = [*labels, np.arange(len(perm))][:2]
    ends = np.add(lines, [[0], [count // 2]])
    needed = np.bincount(ends.reshape(-1), minlength=count) > full
    source, sink, forced_source, forced_sink = range(count, count + 4)
    firsts, seconds = map(np.unique, ends)
    into_firsts = np.where(needed[firsts], forced_source, source)
    out_of_seconds = np.where(needed[seconds], forced_sink, sink)
    tails = np.concatenate([ends[0], into_firsts, seconds, [source, forced_source, forced_source, sink]])
    heads = np.concatenate([ends[1], firsts, out_of_seconds, [forced_sink, sink, source, forced_sink]])
    capacities = np.ones(len(tails), np.int32)
    capacities[-4:] = needed[firsts].sum(), needed[seconds].sum(), size, size
    edges = np.stack([tails, heads]).astype(np.int32)  # scipy 1.14's flow takes no other type
    network = csr_array((capacities, edges), shape=(count + 4, count + 4))
    result = maximum_flow(network, forced_source, forced_sink)
    if result.flow_value < needed.sum() + size:
        return perm
    flow = result.flow.tocoo()
    used = (flow.data > 0) & (flow.row < count) & (flow.col < count)
    keys, rows = np.unique(ends[0] * count + ends[1], return_index=True)
    last = rows[np.searchsorted(keys, flow.row[used].astype(np.int64) * count + flow.col[used])]
    order = perm.copy()
    order[:-size][np.isin(perm[:-size], last)] = np.setdiff1d(perm[-size:], last)
    order[-size:] = last
    return order
