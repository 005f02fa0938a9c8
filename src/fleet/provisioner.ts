import { messageOf, SluiceError } from '../errors.ts'

/** Workers that a pool requests. */
export interface StartRequest {
  /** The same token means the same workers: repeating a request starts none again. */
  readonly token: string
  readonly pool: string
  /** The members of the request to start: 1 is the first. */
  readonly members: readonly number[]
  /** The capacity of each; 0: no limit. */
  readonly capacity: number
  /** The labels of each, for tasks with `requires`. */
  readonly labels: Readonly<Record<string, string | number | boolean>>
}

/** What was started. Members in neither list were not tried. */
export interface Started {
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  readonly failures: readonly { readonly member: number; readonly message: string }[]
}

export interface InstanceState {
  readonly id: string
  /** `unknown`: it may be running. */
  readonly state: 'starting' | 'running' | 'stopped' | 'unknown'
  /** Why it stopped, if known. */
  readonly reason?: string
}

/**
 * Starts and stops workers for a pool.
 *
 * Every call ends when its signal fires, and may be repeated after a failure or a crash. How a worker finds the
 * database or the server is not part of it: the image, the task definition or the environment defines that.
 *
 * @throws {SluiceError} `PROVISIONER_FAILED` with `details.kind`, if nothing could be done. `WrongAnswer` also names
 *   what has to be stopped.
 */
export interface Provisioner {
  start(request: StartRequest, signal: AbortSignal): Promise<Started>
  describe(ids: readonly string[], signal: AbortSignal): Promise<readonly InstanceState[]>
  /**
   * Stopping a worker that has stopped or is unknown is not a failure. A worker that only another process can stop is
   * one.
   */
  stop(ids: readonly string[], reason: string, signal: AbortSignal): Promise<void>
  /** Releases resources, and asks worker child processes to shut down. */
  close(): Promise<void>
}

/** What the provisioners of this process share. */
export interface ProvisionerSetting {
  readonly pool: string
  /** As written in the config. */
  readonly options: Readonly<Record<string, unknown>>
  /** The folder from which relative paths start. */
  readonly folder: string
  /** The config file, if there is one. */
  readonly configFile: string | undefined
  /** The environment with which a child process finds the database. */
  readonly environment: Readonly<Record<string, string>>
}

/**
 * throttled: too many calls. denied: missing permissions. timeout: no response. refused: rejected. unreachable: no
 * connection.
 */
export type FailureKind = 'throttled' | 'denied' | 'timeout' | 'refused' | 'unreachable'

/** The environment of a worker. It identifies the worker as a member of the request. */
export function environmentOf(request: StartRequest, member: number): Readonly<Record<string, string>> {
  const labels = Object.entries(request.labels)
  return {
    SLUICE_POOL: request.pool,
    SLUICE_REQUEST: `${request.token}.${member}`,
    SLUICE_CAPACITY: String(request.capacity),
    ...(labels.length > 0 && { SLUICE_LABELS: JSON.stringify(request.labels) }),
  }
}

export function provisionerFailed(kind: FailureKind, message: string, cause?: unknown): SluiceError {
  return new SluiceError('PROVISIONER_FAILED', message, { details: { kind }, cause })
}

/**
 * An invalid response of a provisioner. The workers it names may have been started and must be stopped. A member that
 * was not requested is 0.
 */
export class WrongAnswer extends SluiceError {
  readonly instances: Started['instances']

  constructor(message: string, instances: Started['instances']) {
    super('PROVISIONER_FAILED', message, { details: { kind: 'refused' satisfies FailureKind } })
    this.instances = instances
  }
}

/**
 * Checks that each requested member is named once and that ids are unique. Otherwise, a worker that has arrived could
 * be stopped as one that has not.
 *
 * @throws {WrongAnswer}
 */
export function checkStarted(started: Started, asked: readonly number[]): Started {
  const { instances, failures } = started
  const wrong = (message: string) =>
    new WrongAnswer(
      `the provisioner's response: ${message}`,
      instances.map(({ member, id }) => ({ member: asked.includes(member) ? member : 0, id })),
    )
  const ids = new Set<string>()
  const members = new Set<number>()
  for (const { member, id } of instances) {
    if (!asked.includes(member)) throw wrong(`member must be one of ${asked.join(', ')}`)
    if (members.has(member)) throw wrong(`member ${member} is named twice`)
    if (ids.has(id)) throw wrong(`two members have the id ${id}`)
    members.add(member)
    ids.add(id)
  }
  if (failures.some(({ member }) => !asked.includes(member)))
    throw wrong(`member must be one of ${asked.join(', ')}`)
  return started
}

/** How many calls of one request run at once, because clouds limit the rate of calls. */
const CALLS_AT_ONCE = 5

/**
 * Starts members one by one, a few at a time, so that each has its own result.
 *
 * @throws the first failure if none could be started.
 */
export async function startEach(
  request: StartRequest,
  start: (member: number) => Promise<string>,
): Promise<Started> {
  const instances: { member: number; id: string }[] = []
  const failures: { member: number; message: string }[] = []
  const errors: unknown[] = []
  const left = [...request.members]
  const next = async (): Promise<void> => {
    for (let member = left.shift(); member !== undefined; member = left.shift()) {
      try {
        instances.push({ member, id: await start(member) })
      } catch (error) {
        errors.push(error)
        failures.push({ member, message: messageOf(error) })
        // Throttled or denied calls would fail for the rest, too, and more calls make it worse.
        if (instances.length === 0) left.length = 0
      }
    }
  }
  await Promise.all(Array.from({ length: CALLS_AT_ONCE }, next))
  if (instances.length === 0 && errors.length > 0) throw errors[0]
  const byMember = (a: { member: number }, b: { member: number }) => a.member - b.member
  return { instances: instances.sort(byMember), failures: failures.sort(byMember) }
}

/**
 * Loads the package of an optional peer dependency.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when it is not installed.
 */
export async function loadSdk<T>(name: string, kind: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    if (code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new SluiceError(
      'INVALID_CONFIG',
      `the provisioner ${kind} needs the package ${name}, which is not installed: npm install ${name}`,
      { cause },
    )
  }
}
