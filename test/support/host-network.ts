import { execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

const run = promisify(execFile)

/**
 * How a host is cut off.
 *
 * - `silent`: nothing gets to it or from it, and no side is told, as behind a router that drops everything.
 * - `unplugged`: the same, and its network card sees no carrier.
 * - `deaf`: what it sends arrives, answers do not.
 */
export type Cut = 'silent' | 'unplugged' | 'deaf'

const PREFIX = 'sluice-test'
const BRIDGE = 'br0'

/**
 * Hosts of a network of their own: a network namespace each, with one card on a common switch, which has a namespace too.
 *
 * Nothing outside is changed, and nothing outside can be reached: there is no route but to the other hosts. Addresses of cards
 * are known beforehand, so a host that is cut off is not reported as missing; packets to it just vanish.
 */
export class HostNetwork {
  readonly #id = `${PREFIX}-${process.pid}-${randomBytes(3).toString('hex')}`
  readonly #hosts: readonly string[]

  private constructor(hosts: readonly string[]) {
    this.#hosts = hosts
  }

  /** Why no such network can be made here; `undefined` when it can. */
  static obstacle(): string | undefined {
    if (process.platform !== 'linux') return 'network namespaces are a thing of Linux'
    if (process.geteuid?.() !== 0) return 'network namespaces need root'
    const probe = `${PREFIX}-${process.pid}-probe`
    try {
      execFileSync('ip', ['netns', 'add', probe], { stdio: 'pipe' })
      const port = ['link', 'add', 'name', 'port0', 'type', 'veth', 'peer', 'name', 'port1']
      execFileSync('ip', ['-n', probe, ...port], { stdio: 'pipe' })
      execFileSync('ip', ['-n', probe, 'link', 'add', 'name', BRIDGE, 'type', 'bridge'], { stdio: 'pipe' })
      return undefined
    } catch (error) {
      return `network namespaces cannot be made: ${(error as Error).message.trim()}`
    } finally {
      removeQuietly(probe)
    }
  }

  static async make(hosts: readonly string[]): Promise<HostNetwork> {
    await removeLeftovers()
    const network = new HostNetwork(hosts)
    try {
      await network.#build()
    } catch (error) {
      await network.remove()
      throw error
    }
    return network
  }

  addressOf(host: string): string {
    return `10.77.0.${this.#number(host)}`
  }

  /** All of its addresses. */
  get range(): string {
    return '10.77.0.0/24'
  }

  /** What to put in front of a command so that it runs on this host. The process that is started becomes the command. */
  on(host: string): readonly string[] {
    return ['ip', 'netns', 'exec', this.#space(host)]
  }

  async cut(host: string, how: Cut): Promise<void> {
    const port = this.#port(host)
    if (how === 'silent') await this.#onSwitch('link', 'set', 'dev', port, 'nomaster')
    else if (how === 'unplugged') await this.#onSwitch('link', 'set', 'dev', port, 'down')
    else await this.#asSlave(port, 'learning', 'off', 'flood', 'off', 'fdb_flush')
  }

  /** However it was cut off. */
  async heal(host: string): Promise<void> {
    const port = this.#port(host)
    await this.#onSwitch('link', 'set', 'dev', port, 'master', BRIDGE)
    await this.#onSwitch('link', 'set', 'dev', port, 'up')
    await this.#asSlave(port, 'learning', 'on', 'flood', 'on')
  }

  /** Two hosts lose each other and nobody else. */
  async part(one: string, other: string): Promise<void> {
    for (const host of [one, other]) await this.#asSlave(this.#port(host), 'isolated', 'on')
  }

  async join(one: string, other: string): Promise<void> {
    for (const host of [one, other]) await this.#asSlave(this.#port(host), 'isolated', 'off')
  }

  /**
   * Another machine with the same address takes its place, which knows nothing of its connections. As after a loss of power:
   * the kernel of a killed process would still say goodbye. Nothing may run on it.
   */
  async replace(host: string): Promise<void> {
    await this.#onSwitch('link', 'delete', 'dev', this.#port(host))
    await run('ip', ['netns', 'delete', this.#space(host)])
    await this.#plug(host)
  }

  /** What still runs on a host keeps its namespace alive, cut off from all others. */
  async remove(): Promise<void> {
    for (const space of ['switch', ...this.#hosts].map((host) => this.#space(host)))
      await run('ip', ['netns', 'delete', space]).catch(() => {})
  }

  async #build(): Promise<void> {
    await run('ip', ['netns', 'add', this.#space('switch')])
    await this.#onSwitch('link', 'add', 'name', BRIDGE, 'type', 'bridge')
    await this.#onSwitch('link', 'set', 'dev', BRIDGE, 'up')
    for (const host of this.#hosts) await this.#plug(host)
  }

  async #plug(host: string): Promise<void> {
    const space = this.#space(host)
    const port = this.#port(host)
    await run('ip', ['netns', 'add', space])
    const card = ['peer', 'name', 'eth0', 'address', this.#card(host), 'netns', space]
    await this.#onSwitch('link', 'add', 'name', port, 'type', 'veth', ...card)
    await run('ip', ['-n', space, 'address', 'add', `${this.addressOf(host)}/24`, 'dev', 'eth0'])
    for (const device of ['lo', 'eth0']) await run('ip', ['-n', space, 'link', 'set', 'dev', device, 'up'])
    for (const other of this.#hosts) {
      if (other === host) continue
      const known = [this.addressOf(other), 'lladdr', this.#card(other), 'dev', 'eth0', 'nud', 'permanent']
      await run('ip', ['-n', space, 'neighbour', 'replace', ...known])
    }
    await this.heal(host)
  }

  #onSwitch(...args: readonly string[]): Promise<unknown> {
    return run('ip', ['-n', this.#space('switch'), ...args])
  }

  #asSlave(port: string, ...args: readonly string[]): Promise<unknown> {
    return this.#onSwitch('link', 'set', 'dev', port, 'type', 'bridge_slave', ...args)
  }

  #number(host: string): number {
    const at = this.#hosts.indexOf(host)
    if (at < 0) throw new Error(`there is no host ${host}`)
    return at + 1
  }

  #space(host: string): string {
    return `${this.#id}-${host}`
  }

  #port(host: string): string {
    return `port${this.#number(host)}`
  }

  #card(host: string): string {
    return `02:00:0a:4d:00:${this.#number(host).toString(16).padStart(2, '0')}`
  }
}

/** Of runs that were killed. */
async function removeLeftovers(): Promise<void> {
  const { stdout } = await run('ip', ['netns', 'list'])
  for (const line of stdout.split('\n')) {
    const [, pid] = new RegExp(`^${PREFIX}-(\\d+)-`).exec(line) ?? []
    if (pid !== undefined && !isAlive(Number(pid))) removeQuietly(line.split(' ')[0]!)
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

function removeQuietly(space: string): void {
  try {
    execFileSync('ip', ['netns', 'delete', space], { stdio: 'pipe' })
  } catch {
    // It is not there.
  }
}
