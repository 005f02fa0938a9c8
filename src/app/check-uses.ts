import { amountProblem } from '../config/budgets-shape.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import { SluiceError } from '../errors.ts'
import { isExpression, PER_JOB_ALONE } from '../model/amount.ts'
import { formatPath, invalidConfig, type Problem } from '../model/setting-value.ts'
import type { AnyTask } from '../worker/task.ts'

/**
 * Rejects invalid expressions in the amounts of code, because every job of the task would fail. Those of the file were
 * checked when it was read.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`, which names task, field and budget, and the position in the expression.
 */
export function checkExpressions({ name, uses, perJob }: AnyTask): void {
  for (const [field, amounts] of Object.entries({ uses, perJob }))
    for (const [budget, amount] of Object.entries(amounts ?? {})) {
      const problem = isExpression(amount) ? amountProblem(amount) : undefined
      if (problem !== undefined)
        throw new SluiceError(
          'INVALID_ARGUMENT',
          `task ${JSON.stringify(name)}: ${field}.${budget}: ${problem}`,
        )
    }
}

/**
 * Rejects tasks with `perJob` but without `uses`, because their use would not be counted.
 *
 * @param tasks With the settings of the file applied: file and code may each give one of the two.
 * @throws {SluiceError} `INVALID_CONFIG` with each such task of the file and its position; `INVALID_ARGUMENT` for a
 * task
 *   in code.
 */
export function checkPerJob(tasks: ReadonlyMap<string, AnyTask>, file: LoadedConfig | undefined): void {
  const uncounted = [...tasks.values()].filter(
    ({ uses, perJob }) => uses === undefined && perJob !== undefined,
  )
  const isWritten = ({ name }: AnyTask) => file?.config.tasks?.[name]?.perJob !== undefined
  const problems = uncounted.filter(isWritten).map(({ name }): Problem => {
    const path = ['tasks', name, 'perJob']
    return { path: formatPath(path), place: file?.locate(path, 'key'), message: PER_JOB_ALONE }
  })
  if (problems.length > 0) throw invalidConfig(problems)
  const [inCode] = uncounted
  if (inCode !== undefined)
    throw new SluiceError('INVALID_ARGUMENT', `task ${JSON.stringify(inCode.name)}: perJob ${PER_JOB_ALONE}`)
}
