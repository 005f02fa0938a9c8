import type { RunningAttempt } from '../running-attempt.ts'
import type { AnyTask } from '../task.ts'
import type { ModelKeeper } from './model-keeper.ts'

/** It draws from devices, or needs a model. */
export function isOnDevices({ assignment }: RunningAttempt): boolean {
  return assignment.devices !== undefined || assignment.model !== undefined
}

/**
 * Brings an attempt onto its devices: resolves when its model is there, where it has one. It has to be left in every case.
 *
 * @throws what loading the model throws; the signal's reason when the attempt is stopped meanwhile.
 */
export async function enterDevices(
  models: ModelKeeper,
  task: AnyTask,
  attempt: RunningAttempt,
): Promise<void> {
  const { model, devices = [] } = attempt.assignment
  if (model === undefined) {
    models.use(devices, 1)
    return
  }
  const isInline = task.execution === 'inline'
  attempt.loading = true
  const copy = models.join(model, devices)
  attempt.copy = copy
  await models.ready(copy, attempt, !isInline)
  attempt.model = { name: model, devices, value: copy.value, loaded: copy.isLoaded && isInline }
  attempt.loading = false
}

/** Call it when the ending is among those to report: a model must not be told as gone before the job that needed it. */
export function leaveDevices(models: ModelKeeper, attempt: RunningAttempt, completed: boolean): void {
  const { assignment, copy, loading, begunAt, endedAt } = attempt
  const { model, devices = [] } = assignment
  if (model === undefined) models.use(devices, -1)
  if (model !== undefined && completed) models.ran(model, endedAt - begunAt)
  if (copy !== undefined) models.leave(copy, !loading)
}

/** Of an attempt on devices, for whom running out of their memory is no failure; `undefined` for others. */
export function memoryOf({
  assignment,
  loading,
}: RunningAttempt): { model: boolean; loading: boolean } | undefined {
  const { model, devices = [] } = assignment
  return devices.length === 0 ? undefined : { model: model !== undefined, loading }
}
