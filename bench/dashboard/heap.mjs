// What a page keeps in memory, after a forced collection: how much, and of what kind.

/** A CDP session of a page that can be asked. */
export async function openHeap(context, page) {
  const cdp = await context.newCDPSession(page)
  for (const domain of ['Performance', 'HeapProfiler']) await cdp.send(`${domain}.enable`)
  return cdp
}

/** In MB; and how many nodes of documents there are. */
export async function heapOf(cdp) {
  // What the first collection frees may let go of more.
  for (let n = 0; n < 2; n += 1) await cdp.send('HeapProfiler.collectGarbage')
  const { metrics } = await cdp.send('Performance.getMetrics')
  const of = (wanted) => metrics.find(({ name }) => name === wanted).value
  return { heap: of('JSHeapUsedSize') / 1e6, nodes: of('Nodes') }
}

const KINDS = {
  code: 'compiled code',
  string: 'texts',
  'concatenated string': 'texts',
  'sliced string': 'texts',
  native: "the browser's own",
}

/**
 * The same by kind, from a snapshot: a page that keeps what it should let go of has more objects and texts. Browsers compile what
 * runs often, and keep the latest of what they were asked for and measured, up to some hundreds.
 */
export async function heapByKind(cdp) {
  const chunks = []
  const keep = ({ chunk }) => chunks.push(chunk)
  cdp.on('HeapProfiler.addHeapSnapshotChunk', keep)
  await cdp.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false })
  cdp.off('HeapProfiler.addHeapSnapshotChunk', keep)
  const { snapshot, nodes } = JSON.parse(chunks.join(''))
  const { node_fields: fields, node_types: types } = snapshot.meta
  const [type, size] = [fields.indexOf('type'), fields.indexOf('self_size')]
  const sums = { objects: 0, texts: 0, 'compiled code': 0, "the browser's own": 0 }
  for (let at = 0; at < nodes.length; at += fields.length)
    sums[KINDS[types[type][nodes[at + type]]] ?? 'objects'] += nodes[at + size] / 1e6
  return sums
}

/** `objects 3.04 -> 3.06, texts 1.10 -> 1.10, ... MB`. */
export function kindWords(early, late) {
  const parts = Object.keys(early).map(
    (kind) => `${kind} ${early[kind].toFixed(2)} -> ${late[kind].toFixed(2)}`,
  )
  return `${parts.join(', ')} MB`
}
