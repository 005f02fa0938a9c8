import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface EcsTask {
  readonly taskArn: string
  readonly environment: Readonly<Record<string, string>>
  readonly input: Record<string, unknown>
  lastStatus: string
  stoppedReason?: string
}

/** A server that speaks as Amazon ECS does on the wire: AWS JSON 1.1, actions named by a header. */
export class FakeEcs {
  readonly tasks = new Map<string, EcsTask>()
  /** Calls by action. */
  readonly calls: string[] = []
  /** So many calls are answered as too many. */
  throttles = 0
  /** Members for which the cluster has no room. */
  noRoomFor: readonly number[] = []
  denies = false
  hangs = false
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const action = String(request.headers['x-amz-target']).split('.')[1] ?? ''
      this.calls.push(action)
      this.#answer(action, JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}'), response)
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

  #answer(action: string, input: Record<string, unknown>, response: ServerResponse): void {
    if (this.hangs) return
    const send = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' })
      response.end(JSON.stringify(body))
    }
    if (this.throttles > 0) {
      this.throttles--
      send(400, { __type: 'ThrottlingException', message: 'Rate exceeded' })
    } else if (this.denies) {
      const message = `User: arn:aws:iam::123456789012:user/sluice is not authorized to perform: ecs:${action} on resource: *`
      send(400, { __type: 'AccessDeniedException', message })
    } else if (action === 'RunTask') this.#run(input, send)
    else if (action === 'DescribeTasks') {
      const wanted = input.tasks as string[]
      const found = [...this.tasks.values()].filter(({ taskArn }) => wanted.includes(taskArn))
      const missing = wanted.filter((arn) => !found.some(({ taskArn }) => taskArn === arn))
      send(200, {
        tasks: found.map(({ taskArn, lastStatus, stoppedReason }) => ({
          taskArn,
          lastStatus,
          stoppedReason,
        })),
        failures: missing.map((arn) => ({ arn, reason: 'MISSING' })),
      })
    } else if (action === 'StopTask') {
      const task = [...this.tasks.values()].find(({ taskArn }) => taskArn === input.task)
      if (task === undefined) {
        send(400, {
          __type: 'InvalidParameterException',
          message: 'The referenced task was not found.',
        })
        return
      }
      task.lastStatus = 'STOPPED'
      task.stoppedReason ??= String(input.reason)
      send(200, { task: { taskArn: task.taskArn, lastStatus: 'STOPPED', desiredStatus: 'STOPPED' } })
    } else send(400, { __type: 'UnknownOperationException' })
  }

  #run(input: Record<string, unknown>, send: (status: number, body: object) => void): void {
    const token = String(input.clientToken)
    const member = Number(token.split('.')[1])
    if (this.noRoomFor.includes(member)) {
      send(200, {
        tasks: [],
        failures: [
          { arn: 'arn:aws:ecs:eu-central-1:123456789012:container-instance/i', reason: 'RESOURCE:MEMORY' },
        ],
      })
      return
    }
    if (!/^[A-Za-z0-9_/-]{0,128}$/.test(String(input.startedBy))) {
      send(400, { __type: 'InvalidParameterException', message: 'startedBy is invalid' })
      return
    }
    const known = this.tasks.get(token)
    const [override] = (
      input.overrides as { containerOverrides: { environment: { name: string; value: string }[] }[] }
    ).containerOverrides
    const task = known ?? {
      taskArn: `arn:aws:ecs:eu-central-1:123456789012:task/jobs/${token}`,
      environment: Object.fromEntries(override!.environment.map(({ name, value }) => [name, value])),
      input,
      lastStatus: 'PROVISIONING',
    }
    this.tasks.set(token, task)
    send(200, {
      tasks: [{ taskArn: task.taskArn, lastStatus: task.lastStatus, desiredStatus: 'RUNNING', version: 1 }],
      failures: [],
    })
  }
}
