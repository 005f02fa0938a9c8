import { type ErrorCode, SluiceError } from '../errors.ts'
import { checkJobId } from '../model/job-id.ts'
import type { CommonOptions, World } from './command.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import { operate } from './operate.ts'
import { writeJson } from './output/json.ts'
import { painter } from './output/style.ts'
import type { System } from './system.ts'

/** What was done to a job: in words, and as fields of its JSON. */
export interface Deed {
  readonly words: string
  readonly fields: Readonly<Record<string, unknown>>
}

/**
 * Does something to each of the jobs named, one after the other. A job that refuses does not keep the others from it;
 * the exit code tells. With --json: a list with an object per job, which has an `error` where it was refused.
 */
export async function eachJob(
  world: World,
  options: CommonOptions,
  ids: readonly string[],
  work: (system: System, id: string) => Promise<Deed>,
): Promise<ExitCode> {
  for (const id of ids) checkJobId(id)
  return operate(world, options, async (system) => {
    const results: object[] = []
    let failed = false
    for (const id of ids) {
      try {
        const { words, fields } = await work(system, id)
        results.push({ id, ...fields })
        if (options.json !== true) world.out.line(`job ${id}: ${words}`)
      } catch (error) {
        if (!isRefusal(error)) throw error
        failed = true
        results.push({ id, error: error.toJSON() })
        if (options.json !== true)
          world.err.line(`${painter(world.err)('red', 'error:')} ${error.message} (${error.code})`)
      }
    }
    if (options.json === true) writeJson(world.out, results)
    return failed ? EXIT.failed : EXIT.done
  })
}

const OF_ALL: readonly ErrorCode[] = ['INVALID_ARGUMENT', 'UNAUTHENTICATED', 'TOO_MANY_FAILURES']

/** The job does not allow it, or does not exist. A wrong argument, a wrong key or a lost database concerns all of them. */
function isRefusal(error: unknown): error is SluiceError {
  return error instanceof SluiceError && error.status < 500 && !OF_ALL.includes(error.code)
}
