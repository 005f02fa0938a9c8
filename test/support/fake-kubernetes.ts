import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface StoredJob {
  readonly body: {
    readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> }
    readonly spec: {
      readonly template: {
        readonly spec: { readonly containers: PodContainer[]; readonly restartPolicy: string }
      }
    }
  }
  status: object
}

interface PodContainer {
  readonly env: readonly { readonly name: string; readonly value: string }[]
}

const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/

/** A server that speaks as Kubernetes does about Jobs: paths of batch/v1, errors as Status objects. */
export class FakeKubernetes {
  readonly jobs = new Map<string, StoredJob>()
  readonly calls: string[] = []
  throttles = 0
  noRoomFor: readonly number[] = []
  denies = false
  hangs = false
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      this.calls.push(`${request.method} ${request.url}`)
      const text = Buffer.concat(chunks).toString('utf8')
      this.#answer(request.method ?? '', request.url ?? '', text, response)
    })
  })

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(method: string, url: string, text: string, response: ServerResponse): void {
    if (this.hangs) return
    const send = (code: number, body: object) => {
      response.writeHead(code, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    const refuse = (code: number, reason: string, message: string) =>
      send(code, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code })
    const [, name] = /^\/apis\/batch\/v1\/namespaces\/work\/jobs(?:\/([^?]+))?/.exec(url) ?? []
    if (this.throttles > 0) {
      this.throttles--
      refuse(429, 'TooManyRequests', 'too many requests, please try again later')
    } else if (this.denies) {
      const who = 'User "system:serviceaccount:work:sluice"'
      refuse(
        403,
        'Forbidden',
        `jobs.batch is forbidden: ${who} cannot create resource "jobs" in API group "batch"`,
      )
    } else if (method === 'POST') {
      const body = JSON.parse(text) as StoredJob['body']
      const made = body.metadata.name
      if (this.noRoomFor.some((member) => made.endsWith(`-${member}`)))
        refuse(403, 'Forbidden', `jobs.batch "${made}" is forbidden: exceeded quota: pods`)
      else if (!Object.values(body.metadata.labels).every((value) => LABEL_VALUE.test(value)))
        refuse(422, 'Invalid', `Job.batch "${made}" is invalid: metadata.labels: Invalid value`)
      else if (this.jobs.has(made)) refuse(409, 'AlreadyExists', `jobs.batch "${made}" already exists`)
      else {
        this.jobs.set(made, { body, status: {} })
        send(201, { apiVersion: 'batch/v1', kind: 'Job', ...body, status: {} })
      }
    } else {
      const job = this.jobs.get(name ?? '')
      if (job === undefined) refuse(404, 'NotFound', `jobs.batch "${name}" not found`)
      else if (method === 'GET')
        send(200, { apiVersion: 'batch/v1', kind: 'Job', ...job.body, status: job.status })
      else {
        this.jobs.delete(name!)
        send(200, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' })
      }
    }
  }
}
