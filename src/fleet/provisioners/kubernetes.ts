import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type {
  BatchV1Api,
  KubeConfig,
  RequestContext,
  ResponseContext,
  V1Job,
  V1PodTemplateSpec,
} from '@kubernetes/client-node'
import { messageOf, SluiceError } from '../../errors.ts'
import { checkList, checkOptions, checkText, invalidArgument, optionNames } from '../../model/argument.ts'
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

type Sdk = typeof import('@kubernetes/client-node')

interface KubernetesOptions {
  readonly namespace?: string
  readonly image?: string
  readonly args?: readonly string[]
  /** Secrets whose entries become the worker's environment: DATABASE_URL, or SLUICE_SERVER and SLUICE_KEY. */
  readonly secrets?: readonly string[]
  readonly serviceAccount?: string
  /** A Kubernetes pod template, instead of image, args, secrets and serviceAccount. */
  readonly template?: V1PodTemplateSpec
  readonly context?: string
  readonly kubeconfig?: string
}

/** How long ended Jobs are kept for inspection. */
const KEPT_SECONDS = 600
/** The pauses between tries of a call that was throttled or failed on the server; the last one repeats. */
const PAUSES_MS = [100, 200, 400, 800]

/**
 * Runs workers as Jobs of Kubernetes, one Job with one pod each, without restarts.
 *
 * The name of a Job is derived from the request, so that a second call finds the existing one. Cluster and credentials
 * are found as
 * `kubectl` finds them, or by the service account inside a cluster.
 */
export class KubernetesProvisioner implements Provisioner {
  readonly #options: KubernetesOptions
  #cluster: Promise<Cluster> | undefined

  constructor(setting: ProvisionerSetting) {
    this.#options = readOptions(setting)
  }

  async start(request: StartRequest, signal: AbortSignal): Promise<Started> {
    const { api, namespace } = await this.#connect(signal)
    return startEach(request, async (member) => {
      const body = this.#jobOf(request, member)
      await called('create a Job', signal, async () => {
        try {
          await api.createNamespacedJob({ namespace, body })
        } catch (error) {
          if (codeOf(error) !== 409) throw error
        }
      })
      return body.metadata!.name!
    })
  }

  async describe(ids: readonly string[], signal: AbortSignal): Promise<readonly InstanceState[]> {
    const { api, namespace } = await this.#connect(signal)
    const states: InstanceState[] = []
    for (const name of ids) {
      const job = await called('read a Job', signal, async () => {
        try {
          return await api.readNamespacedJob({ name, namespace })
        } catch (error) {
          if (codeOf(error) === 404) return undefined
          throw error
        }
      })
      states.push(instanceState(name, job))
    }
    return states
  }

  async stop(ids: readonly string[], _reason: string, signal: AbortSignal): Promise<void> {
    const { api, namespace } = await this.#connect(signal)
    for (const name of ids) {
      await called('delete a Job', signal, async () => {
        try {
          // Deletes its pod, too, after the pod's grace period.
          await api.deleteNamespacedJob({ name, namespace, propagationPolicy: 'Background' })
        } catch (error) {
          if (codeOf(error) !== 404) throw error
        }
      })
    }
  }

  async close(): Promise<void> {}

  #jobOf(request: StartRequest, member: number): V1Job {
    const labels = { 'app.kubernetes.io/managed-by': 'sluice', 'sluice/pool': labelOf(request.pool) }
    const template = this.#options.template ?? podOf(this.#options)
    const env = Object.entries(environmentOf(request, member)).map(([name, value]) => ({ name, value }))
    const [worker, ...others] = template.spec?.containers ?? []
    return {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: `sluice-${request.token}-${member}`, labels },
      spec: {
        backoffLimit: 0,
        ttlSecondsAfterFinished: KEPT_SECONDS,
        template: {
          metadata: { ...template.metadata, labels: { ...template.metadata?.labels, ...labels } },
          spec: {
            ...template.spec,
            // A worker that shut down must not restart: the pool decides.
            restartPolicy: 'Never',
            containers: [{ ...worker!, env: [...(worker!.env ?? []), ...env] }, ...others],
          },
        },
      },
    }
  }

  /** Creates a client per call, because the SDK accepts a signal only when its client is created. */
  async #connect(signal: AbortSignal): Promise<{ api: BatchV1Api; namespace: string }> {
    this.#cluster ??= loadCluster(this.#options)
    const { sdk, config, server, namespace } = await this.#cluster
    const cut = {
      pre: async (context: RequestContext) => {
        context.setSignal(signal)
        return context
      },
      post: async (context: ResponseContext) => context,
    }
    const configuration = sdk.createConfiguration({
      baseServer: new sdk.ServerConfiguration(server, {}),
      authMethods: { default: config },
      promiseMiddleware: [cut],
    })
    return { api: new sdk.BatchV1Api(configuration), namespace }
  }
}

interface Cluster {
  readonly sdk: Sdk
  readonly config: KubeConfig
  readonly server: string
  readonly namespace: string
}

async function loadCluster({ kubeconfig, context, namespace }: KubernetesOptions): Promise<Cluster> {
  const sdk = await loadSdk('@kubernetes/client-node', 'kubernetes', () => import('@kubernetes/client-node'))
  const config = new sdk.KubeConfig()
  if (kubeconfig === undefined) config.loadFromDefault()
  else config.loadFromFile(kubeconfig)
  if (context !== undefined) config.setCurrentContext(context)
  const server = config.getCurrentCluster()?.server
  if (server === undefined) {
    throw new SluiceError(
      'INVALID_CONFIG',
      'Kubernetes: no cluster is configured; set KUBECONFIG, or options.kubeconfig and options.context',
    )
  }
  const current = config.getContextObject(config.getCurrentContext())
  return { sdk, config, server, namespace: namespace ?? current?.namespace ?? 'default' }
}

/** Retries throttled calls and server errors a few times. Unlike the AWS SDK, this SDK does not. */
async function called<T>(what: string, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await call()
    } catch (error) {
      const kind = kindOf(error, signal)
      const pause = PAUSES_MS[tries]
      const again = kind === 'throttled' || (codeOf(error) ?? 0) >= 500
      if (!again || pause === undefined)
        throw provisionerFailed(kind, `Kubernetes, to ${what}: ${wordsOf(error)}`, error)
      await delay(pause, undefined, { signal }).catch(() => {})
    }
  }
}

function kindOf(error: unknown, signal: AbortSignal): FailureKind {
  if (signal.aborted) return 'timeout'
  const code = codeOf(error)
  if (code === undefined || code >= 500) return 'unreachable'
  if (code === 429) return 'throttled'
  return code === 401 || code === 403 ? 'denied' : 'refused'
}

/** The HTTP status of a response, or undefined if there was none. */
function codeOf(error: unknown): number | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'number' ? code : undefined
}

/** Shortens the SDK's message, which contains the whole response, including headers. */
function wordsOf(error: unknown): string {
  const { body } = error as { body?: unknown }
  const status = typeof body === 'string' ? tryParse(body) : body
  const message = (status as { message?: unknown } | undefined)?.message
  if (typeof message === 'string') return message
  const code = codeOf(error)
  return code === undefined ? messageOf(error) : `HTTP status ${code}`
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function instanceState(id: string, job: V1Job | undefined): InstanceState {
  if (job === undefined) return { id, state: 'stopped', reason: 'the Job does not exist any more' }
  const ended = job.status?.conditions?.find(
    ({ type, status }) => (type === 'Failed' || type === 'Complete') && status === 'True',
  )
  if (ended !== undefined)
    return { id, state: 'stopped', reason: ended.message ?? ended.reason ?? ended.type.toLowerCase() }
  return { id, state: (job.status?.ready ?? 0) > 0 ? 'running' : 'starting' }
}

function podOf({ image = '', args, secrets, serviceAccount }: KubernetesOptions): V1PodTemplateSpec {
  return {
    spec: {
      ...(serviceAccount !== undefined && { serviceAccountName: serviceAccount }),
      containers: [
        {
          name: 'worker',
          image,
          ...(args !== undefined && { args: [...args] }),
          ...(secrets !== undefined && { envFrom: secrets.map((name) => ({ secretRef: { name } })) }),
        },
      ],
    },
  }
}

const NAMES = optionNames<KubernetesOptions>({
  namespace: true,
  image: true,
  args: true,
  secrets: true,
  serviceAccount: true,
  template: true,
  context: true,
  kubeconfig: true,
})

function readOptions({ options, pool, folder }: ProvisionerSetting): KubernetesOptions {
  const name = `fleet.pools.${pool}.options`
  checkOptions(options, NAMES, name)
  for (const field of ['namespace', 'image', 'serviceAccount', 'context', 'kubeconfig'])
    if (options[field] !== undefined) checkText(options[field], `${name}.${field}`)
  for (const field of ['args', 'secrets'])
    if (options[field] !== undefined) checkList(options[field], `${name}.${field}`, checkText)
  const { template, ...rest } = options as unknown as KubernetesOptions
  if ((template === undefined) === (rest.image === undefined))
    throw new SluiceError('INVALID_CONFIG', `${name}: set either image or template, not both`)
  if (template !== undefined && (template?.spec?.containers?.length ?? 0) === 0)
    throw invalidArgument(
      `${name}.template`,
      template,
      'a pod template with spec.containers, the worker first',
    )
  return {
    ...rest,
    ...(template !== undefined && { template }),
    ...(rest.kubeconfig !== undefined && { kubeconfig: resolve(folder, rest.kubeconfig) }),
  }
}

/** Converts a pool's name to the value of a label, which must begin and end with a letter or digit. */
function labelOf(pool: string): string {
  return pool.slice(0, 63).replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, '')
}
