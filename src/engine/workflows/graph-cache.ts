import type { Queryable } from '../../db/database.ts'
import { loadGraphs } from '../../store/load-graphs.ts'
import type { Graph } from '../../workflow/graph.ts'

/** A program has tens of workflows; the others are versions that older runs began with. */
const MAX_GRAPHS = 500

/** Graphs by their hashes, each loaded once: a graph never changes. */
export class GraphCache {
  readonly #db: Queryable
  readonly #graphs = new Map<string, Graph>()

  constructor(db: Queryable) {
    this.#db = db
  }

  /** Afterwards `get` has all of these. `null`, which a job without a graph has, is passed over. */
  async load(hashes: Iterable<string | null>): Promise<void> {
    const wanted = new Set([...hashes].filter((hash) => hash !== null))
    const missing = [...wanted].filter((hash) => !this.#graphs.has(hash))
    if (missing.length === 0) return
    const loaded = await loadGraphs(this.#db, missing)
    if (this.#graphs.size + loaded.size > MAX_GRAPHS)
      for (const hash of this.#graphs.keys()) if (!wanted.has(hash)) this.#graphs.delete(hash)
    // What is stored under a hash was a graph when it was stored.
    for (const [hash, body] of loaded) this.#graphs.set(hash, body as Graph)
  }

  /** A graph that was loaded. */
  get(hash: string): Graph {
    return this.#graphs.get(hash)!
  }
}
