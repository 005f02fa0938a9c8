import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { TaskContext } from '../../worker/context.ts'
import { fail } from '../../worker/ending.ts'
import { type AnyTask, type TaskOptions, task } from '../../worker/task.ts'
import { SAMPLE_ROWS, sampleRow, shadesOf } from './picture.ts'
import type { Scoreboard } from './scoreboard.ts'

const compress = promisify(gzip)

/** The lanes of the tour. Their sizes differ, so that one can see each of them bound. */
export const LANES = {
  interactive: { slots: 4 },
  maintenance: { slots: 2 },
  system: { slots: 1 },
} as const

export type LaneName = keyof typeof LANES

const FILES = 4
const CHUNKS = 8
const CHUNK = 60_000

interface Workshop {
  readonly board: Scoreboard
  /** Called with each tile as soon as it is drawn. */
  readonly drawn: (number: number, shades: string) => void
  /** 1: so slow that a person can watch. */
  readonly speed: number
}

/** Work of a task, which tells how far it is and pauses now and then so that a person can watch. */
type Work<Input, Result> = (
  input: Input,
  ctx: TaskContext,
  step: (fraction: number, message: string) => Promise<void>,
) => Promise<Result>

/** The tasks of the tour. The work is real and small; without the pauses it would be over before one could look. */
export function tourTasks(workshop: Workshop): AnyTask[] {
  const { board, drawn, speed } = workshop
  function tourTask<Input, Result>(
    name: string,
    lane: LaneName,
    pauseMs: number,
    work: Work<Input, Result>,
    retry: TaskOptions<Input, Result>['retry'] = {},
  ): AnyTask {
    return task<Input, Result>({
      name,
      lane,
      retry,
      run: (input, ctx) =>
        board.during(lane, ctx.job.id, (seat) =>
          work(input, ctx, async (fraction, message) => {
            seat.progress = fraction
            ctx.progress(fraction, message)
            await delay(pauseMs / speed, undefined, { signal: ctx.signal })
          }),
        ),
    })
  }

  return [
    tourTask<{ number: number }, { number: number; shades: string }>(
      'tour.tile',
      'interactive',
      28,
      async ({ number }, _ctx, step) => {
        const rows: number[][] = []
        for (let row = 0; row < SAMPLE_ROWS; row++) {
          rows.push(sampleRow(number, row))
          await step((row + 1) / SAMPLE_ROWS, `row ${row + 1} of ${SAMPLE_ROWS}`)
        }
        const shades = shadesOf(rows)
        drawn(number, shades)
        return { number, shades }
      },
    ),
    tourTask<{ number: number }, { bytes: number; packed: number }>(
      'tour.archive',
      'maintenance',
      130,
      async (_input, ctx, step) => {
        let bytes = 0
        let packed = 0
        for (let file = 1; file <= FILES; file++) {
          const sizes = await ctx.step(`file ${file}`, () => archive(ctx.workdir, `${ctx.job.id}-${file}`))
          bytes += sizes.bytes
          packed += sizes.packed
          await step(file / FILES, `file ${file} of ${FILES}`)
        }
        ctx.log.info(`packed ${bytes} bytes into ${packed}`)
        return { bytes, packed }
      },
    ),
    tourTask<{ number: number }, { from: number; primes: number }>(
      'tour.primes',
      'system',
      115,
      async ({ number }, ctx, step) => {
        const from = number * CHUNK * CHUNKS
        const kept = await ctx.checkpoint.get<{ chunk: number; primes: number }>()
        let { chunk, primes } = kept ?? { chunk: 0, primes: 0 }
        for (; chunk < CHUNKS; ) {
          primes += countPrimes(from + chunk * CHUNK, from + (chunk + 1) * CHUNK)
          chunk++
          await ctx.checkpoint.set({ chunk, primes })
          await step(chunk / CHUNKS, `${primes} primes so far`)
        }
        return { from, primes }
      },
    ),
    tourTask<{ day: string }, { day: string; lines: number }>(
      'tour.report',
      'interactive',
      150,
      async ({ day }, ctx, step) => {
        for (let part = 1; part <= 3; part++) await step(part / 3, `part ${part} of 3`)
        ctx.log.info(`the report of ${day} is written`)
        return { day, lines: 3 }
      },
    ),
    tourTask<null, { attempt: number }>(
      'tour.flaky',
      'maintenance',
      200,
      async (_input, ctx, step) => {
        await step(0.5, 'asking a server that is not always there')
        ctx.log.info(`attempt ${ctx.attempt}`)
        if (ctx.attempt <= 2) throw new Error('no answer from the server')
        await step(1, 'it answered')
        return { attempt: ctx.attempt }
      },
      { attempts: 3, backoff: 'fixed', delay: 1000 / speed },
    ),
    tourTask<null, { attempt: number }>('tour.import', 'system', 200, async (_input, ctx, step) => {
      await step(0.5, 'looking for the file')
      if (ctx.attempt === 1) throw fail('the file to import is not there')
      await step(1, 'imported')
      return { attempt: ctx.attempt }
    }),
  ]
}

async function archive(folder: string, name: string): Promise<{ bytes: number; packed: number }> {
  let line = createHash('sha256').update(name).digest('hex')
  const lines: string[] = []
  for (let i = 0; i < 200; i++) {
    line = createHash('sha256').update(line).digest('hex')
    lines.push(line)
  }
  const path = join(folder, `${name}.txt`)
  await writeFile(path, lines.join('\n'))
  const packed = await compress(await readFile(path))
  await writeFile(`${path}.gz`, packed)
  return { bytes: lines.length * 65 - 1, packed: packed.length }
}

/** By a sieve over the range, with the primes up to the root of its end. */
function countPrimes(from: number, to: number): number {
  const composite = new Uint8Array(to - from)
  for (let divisor = 2; divisor * divisor < to; divisor++) {
    const first = Math.max(divisor * divisor, Math.ceil(from / divisor) * divisor)
    for (let multiple = first; multiple < to; multiple += divisor) composite[multiple - from] = 1
  }
  let count = 0
  for (let number = Math.max(2, from); number < to; number++) if (composite[number - from] === 0) count++
  return count
}
