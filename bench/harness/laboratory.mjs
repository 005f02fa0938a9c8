import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SYSTEMS } from '../systems/registry.mjs'
import { PostgresServer } from './postgres-server.mjs'
import { startRedis } from './redis-server.mjs'

const MEASURE = fileURLToPath(new URL('./measure.mjs', import.meta.url))
const LIMIT_MS = 30 * 60_000

/** The servers and databases that measurements run in, one measurement at a time. */
export class Laboratory {
  #scratch
  #postgres
  #fixtures = new Map()
  #running = null
  #redis = null
  #sequence = 0
  #aborted = false

  constructor(scratch) {
    this.#scratch = scratch
    this.#postgres = new PostgresServer(join(scratch, 'postgres'))
  }

  async open() {
    mkdirSync(this.#scratch, { recursive: true })
    this.#postgres.install()
    await this.#postgres.use('tuned')
  }

  async settings(profile) {
    await this.#postgres.use(profile)
    return this.#postgres.settings()
  }

  /** One measurement in a fresh database and, for Redis systems, a fresh Redis. Never throws for its failure. */
  async measure(scenario, one, options) {
    if (this.#aborted) return { case: one.id, system: one.system, error: 'stopped before it began' }
    await this.#postgres.use(one.server ?? 'tuned')
    const template = one.fixture === undefined ? null : await this.#fixture(scenario, one, options)
    if (template?.error !== undefined) return template
    return this.#run(scenario, one, options, { database: `bench_${++this.#sequence}`, template })
  }

  /** Removes the prepared databases; they can be large. */
  async dropFixtures() {
    for (const name of this.#fixtures.values()) await this.#drop(name)
    this.#fixtures.clear()
  }

  /** Ends the measurement that runs now; later ones fail at once. */
  abort() {
    this.#aborted = true
    this.#running?.kill('SIGKILL')
  }

  get aborted() {
    return this.#aborted
  }

  async close() {
    await this.#postgres.stop()
  }

  /** The prepared database of a case: built once per system, copied for every measurement. */
  async #fixture(scenario, one, options) {
    const key = `${one.system} ${one.fixture}`
    if (!this.#fixtures.has(key)) {
      const database = `fixture_${++this.#sequence}`
      const line = await this.#run(scenario, one, options, { database, template: null, prepare: true })
      if (line.error !== undefined) return line
      this.#fixtures.set(key, database)
    }
    return this.#fixtures.get(key)
  }

  async #run(scenario, one, options, { database, template, prepare = false }) {
    const from = template === null ? '' : ` template ${template} strategy file_copy`
    await this.#postgres.query('postgres', `create database ${database}${from}`)
    const { store, appendfsync } = SYSTEMS[one.system]
    if (store === 'redis') this.#redis = await startRedis(this.#scratch, appendfsync)
    const spec = {
      scenario: scenario.name,
      case: one.id,
      system: one.system,
      params: one.params,
      prepare,
      options,
      url: this.#postgres.url(database),
      serverUrl: this.#postgres.url('postgres'),
      redis: this.#redis === null ? null : { host: this.#redis.host, port: this.#redis.port },
    }
    try {
      return await this.#spawn(spec)
    } finally {
      await this.#redis?.stop()
      this.#redis = null
      if (!prepare) await this.#drop(database)
    }
  }

  #spawn(spec) {
    const child = spawn(process.execPath, [MEASURE], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#running = child
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
    child.stdin.end(JSON.stringify(spec))
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    return new Promise((resolve) => {
      child.once('close', (code, signal) => {
        clearTimeout(timer)
        this.#running = null
        const last = output.trimEnd().split('\n').at(-1) ?? ''
        resolve(
          last.startsWith('{')
            ? JSON.parse(last)
            : { case: spec.case, system: spec.system, error: `the measurement ended with ${signal ?? code}` },
        )
      })
    })
  }

  async #drop(database) {
    await this.#postgres.query('postgres', `drop database if exists ${database} with (force)`)
  }
}
