import pg from 'pg'
import { afterAll, beforeAll, expect } from 'vitest'
import { CommitChecker } from './commit-checker.ts'
import { type Change, CommitStream } from './commit-stream.ts'
import { WATCHED } from './replayed-state.ts'

/** A database whose every commit is checked. */
export class WatchedCommits {
  readonly checker: CommitChecker
  readonly #stream: CommitStream

  private constructor(checker: CommitChecker, stream: CommitStream) {
    this.checker = checker
    this.#stream = stream
  }

  /** From now on. Nobody else may be at work in the database yet. */
  static async open(url: string, checker = new CommitChecker()): Promise<WatchedCommits> {
    const stream = await CommitStream.open(url, WATCHED)
    checker.begin(await present(url))
    return new WatchedCommits(checker, stream)
  }

  /** Replays what has been committed since the last call. */
  async catchUp(): Promise<CommitChecker> {
    for (;;) {
      const commits = await this.#stream.read()
      if (commits.length === 0) return this.checker
      for (const commit of commits) this.checker.apply(commit)
    }
  }

  async close(): Promise<void> {
    await this.#stream.close()
  }
}

/** A file may leave hundreds of thousands of commits to replay, which takes minutes on a busy machine. */
const REPLAY_MS = 600_000

/**
 * Checks every commit of the tests of a file, and fails the file when one broke a promise. Call it after
 * `useDatabase()`: the last hook is run first, and the database cannot go before its slot.
 */
export function useCommitChecker(database: { readonly directUrl: string }): {
  catchUp(): Promise<CommitChecker>
} {
  let watched: WatchedCommits | undefined
  beforeAll(async () => {
    watched = await WatchedCommits.open(database.directUrl)
  })
  afterAll(async () => {
    try {
      const { violations } = await watched!.catchUp()
      expect(violations.slice(0, 20), 'promises broken by a commit').toEqual([])
    } finally {
      await watched?.close()
    }
  }, REPLAY_MS)
  return { catchUp: () => watched!.catchUp() }
}

/** Texts, as the decoder prints them. */
const AS_DECODED: pg.CustomTypesConfig = {
  getTypeParser: (id: number) => (text: string) =>
    id === pg.types.builtins.BOOL ? String(text === 't') : text,
}

/** Rows that are there already, as if they had just been inserted. */
async function present(url: string): Promise<Change[]> {
  const client = new pg.Client({ connectionString: url, options: '-c timezone=UTC' })
  await client.connect()
  try {
    const changes: Change[] = []
    for (const table of WATCHED) {
      const { rows } = await client.query<Change['row']>({
        text: `select * from ${table}`,
        types: AS_DECODED,
      })
      for (const row of rows) changes.push({ table, kind: 'INSERT', row })
    }
    return changes
  } finally {
    await client.end()
  }
}
