import type { ECSClient, RunTaskCommandInput, Task } from '@aws-sdk/client-ecs'
import { messageOf, SluiceError } from '../../errors.ts'
import { checkFlag, checkList, checkOptions, checkText, optionNames } from '../../model/argument.ts'
import {
  environmentOf,
  type FailureKind,
  type InstanceState,
  loadSdk,
  type Provisioner,
  type ProvisionerSetting,
  provisionerFailed,
  type Started,
  type StartRequest,
  startEach,
} from '../provisioner.ts'

interface EcsOptions {
  readonly taskDefinition: string
  /** The container of the task definition that is the worker. */
  readonly container: string
  readonly cluster?: string
  readonly launchType?: 'EC2' | 'FARGATE' | 'EXTERNAL'
  readonly capacityProvider?: string
  readonly subnets?: readonly string[]
  readonly securityGroups?: readonly string[]
  readonly publicIp?: boolean
  readonly region?: string
  readonly endpoint?: string
}

const LAUNCH_TYPES: readonly string[] = ['EC2', 'FARGATE', 'EXTERNAL']
/** The most tasks in one call of DescribeTasks. */
const DESCRIBED_AT_ONCE = 100
/**
 * The SDK's pauses after throttling grow to seconds (five tries took 11 s). Longer throttling is left to the pool's
 * back-off.
 */
const TRIES = 3

/**
 * Runs workers as tasks of Amazon ECS.
 *
 * One `RunTask` per worker, with its own `clientToken`: ECS answers a second call with the task of the first, and the
 * worker's environment identifies it. Credentials and region are found by the AWS SDK.
 */
export class EcsProvisioner implements Provisioner {
  readonly #options: EcsOptions
  #client: Promise<{ sdk: typeof import('@aws-sdk/client-ecs'); ecs: ECSClient }> | undefined

  constructor(setting: ProvisionerSetting) {
    this.#options = readOptions(setting)
  }

  async start(request: StartRequest, signal: AbortSignal): Promise<Started> {
    const { sdk, ecs } = await this.#connect()
    return startEach(request, async (member) => {
      const input = this.#taskOf(request, member)
      const answer = await ecs
        .send(new sdk.RunTaskCommand(input), { abortSignal: signal })
        .catch((error: unknown) => toFailure(error, signal, 'RunTask'))
      const id = answer.tasks?.[0]?.taskArn
      if (id !== undefined) return id
      const [failure] = answer.failures ?? []
      const reason = failure?.reason ?? 'it started no task and gave no reason'
      throw provisionerFailed('refused', `ECS: ${[reason, failure?.detail].filter(Boolean).join(': ')}`)
    })
  }

  async describe(ids: readonly string[], signal: AbortSignal): Promise<readonly InstanceState[]> {
    const { sdk, ecs } = await this.#connect()
    const { cluster } = this.#options
    const states: InstanceState[] = []
    for (let first = 0; first < ids.length; first += DESCRIBED_AT_ONCE) {
      const tasks = ids.slice(first, first + DESCRIBED_AT_ONCE)
      const answer = await ecs
        .send(new sdk.DescribeTasksCommand({ tasks, ...(cluster !== undefined && { cluster }) }), {
          abortSignal: signal,
        })
        .catch((error: unknown) => toFailure(error, signal, 'DescribeTasks'))
      const byArn = new Map((answer.tasks ?? []).map((task) => [task.taskArn, task]))
      // ECS forgets stopped tasks after an hour and then reports them as missing.
      const missing = new Set((answer.failures ?? []).map((failure) => failure.arn))
      for (const id of tasks) {
        const task = byArn.get(id)
        if (task !== undefined) states.push(instanceState(id, task))
        else states.push({ id, state: missing.has(id) ? 'stopped' : 'unknown' })
      }
    }
    return states
  }

  async stop(ids: readonly string[], reason: string, signal: AbortSignal): Promise<void> {
    const { sdk, ecs } = await this.#connect()
    const { cluster } = this.#options
    for (const task of ids) {
      const input = { task, reason: reason.slice(0, 1024), ...(cluster !== undefined && { cluster }) }
      await ecs
        .send(new sdk.StopTaskCommand(input), { abortSignal: signal })
        .catch((error: unknown) =>
          nameOf(error) === 'InvalidParameterException' ? undefined : toFailure(error, signal, 'StopTask'),
        )
    }
  }

  async close(): Promise<void> {
    const connected = await this.#client?.catch(() => undefined)
    connected?.ecs.destroy()
  }

  #taskOf(request: StartRequest, member: number): RunTaskCommandInput {
    const { taskDefinition, container, cluster, launchType, capacityProvider, ...network } = this.#options
    const environment = Object.entries(environmentOf(request, member)).map(([name, value]) => ({
      name,
      value,
    }))
    return {
      taskDefinition,
      count: 1,
      clientToken: `${request.token}.${member}`,
      // ECS allows only letters, digits, hyphens, underscores and slashes.
      startedBy: `sluice/${request.pool.replaceAll('.', '_')}`.slice(0, 128),
      overrides: { containerOverrides: [{ name: container, environment }] },
      ...(cluster !== undefined && { cluster }),
      ...(launchType !== undefined && { launchType }),
      ...(capacityProvider !== undefined && { capacityProviderStrategy: [{ capacityProvider }] }),
      ...(network.subnets !== undefined && {
        networkConfiguration: {
          awsvpcConfiguration: {
            subnets: [...network.subnets],
            securityGroups: [...(network.securityGroups ?? [])],
            assignPublicIp: network.publicIp === true ? 'ENABLED' : 'DISABLED',
          },
        },
      }),
    }
  }

  #connect(): Promise<{ sdk: typeof import('@aws-sdk/client-ecs'); ecs: ECSClient }> {
    this.#client ??= (async () => {
      const sdk = await loadSdk('@aws-sdk/client-ecs', 'ecs', () => import('@aws-sdk/client-ecs'))
      const { region, endpoint } = this.#options
      const ecs = new sdk.ECSClient({
        maxAttempts: TRIES,
        ...(region !== undefined && { region }),
        ...(endpoint !== undefined && { endpoint }),
      })
      return { sdk, ecs }
    })()
    return this.#client
  }
}

function instanceState(id: string, task: Task): InstanceState {
  const { lastStatus = '', stoppedReason } = task
  if (/^(STOPPED|DELETED|DEPROVISIONING|STOPPING|DEACTIVATING)$/.test(lastStatus))
    return { id, state: 'stopped', ...(stoppedReason !== undefined && { reason: stoppedReason }) }
  return { id, state: lastStatus === 'RUNNING' ? 'running' : 'starting' }
}

function toFailure(error: unknown, signal: AbortSignal, call: string): never {
  if (error instanceof SluiceError) throw error
  const name = nameOf(error)
  throw provisionerFailed(
    kindOf(error, name, signal),
    `ECS ${call}: ${name === '' ? '' : `${name}: `}${messageOf(error)}`,
    error,
  )
}

function kindOf(error: unknown, name: string, signal: AbortSignal): FailureKind {
  if (signal.aborted || /Timeout|AbortError/.test(name)) return 'timeout'
  if (/Throttl|TooManyRequests|RequestLimit|SlowDown/.test(name)) return 'throttled'
  if (/AccessDenied|Unauthorized|UnrecognizedClient|InvalidSignature|ExpiredToken|Credentials/.test(name))
    return 'denied'
  const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode
  return status === undefined || status >= 500 ? 'unreachable' : 'refused'
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : ''
}

const NAMES = optionNames<EcsOptions>({
  taskDefinition: true,
  container: true,
  cluster: true,
  launchType: true,
  capacityProvider: true,
  subnets: true,
  securityGroups: true,
  publicIp: true,
  region: true,
  endpoint: true,
})

function readOptions({ options, pool }: ProvisionerSetting): EcsOptions {
  const name = `fleet.pools.${pool}.options`
  checkOptions(options, NAMES, name)
  checkText(options.taskDefinition, `${name}.taskDefinition`)
  checkText(options.container, `${name}.container`)
  for (const field of ['cluster', 'capacityProvider', 'region', 'endpoint', 'launchType'])
    if (options[field] !== undefined) checkText(options[field], `${name}.${field}`)
  for (const field of ['subnets', 'securityGroups'])
    if (options[field] !== undefined) checkList(options[field], `${name}.${field}`, checkText)
  if (options.publicIp !== undefined) checkFlag(options.publicIp, `${name}.publicIp`)
  const read = options as unknown as EcsOptions
  if (read.launchType !== undefined && !LAUNCH_TYPES.includes(read.launchType))
    throw new SluiceError('INVALID_CONFIG', `${name}.launchType must be one of ${LAUNCH_TYPES.join(', ')}`)
  if (read.launchType !== undefined && read.capacityProvider !== undefined)
    throw new SluiceError('INVALID_CONFIG', `${name}: write launchType or capacityProvider, not both`)
  if (read.launchType === 'FARGATE' && read.subnets === undefined)
    throw new SluiceError('INVALID_CONFIG', `${name}: launchType FARGATE needs subnets`)
  return read
}
