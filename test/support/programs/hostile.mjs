// Tries to reach what a program must not, and leaves as its result what became of each attempt.
import { spawn } from 'node:child_process'
import { mkdirSync, openSync, readdirSync, readFileSync, readSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname } from 'node:path'

const input = JSON.parse(readFileSync(0, 'utf8'))
const worker = process.ppid

function attempt(reach) {
  try {
    return reach()
  } catch (error) {
    return error.code ?? String(error)
  }
}

function found(text) {
  return text.includes(input.secret) ? 'reached' : 'not there'
}

const attacks = {
  'its own environment': () => found(JSON.stringify(process.env)),
  "the worker's environment": () => found(readFileSync(`/proc/${worker}/environ`, 'utf8')),
  "the worker's memory": () => {
    const place = /^([0-9a-f]+)-/.exec(readFileSync(`/proc/${worker}/maps`, 'utf8'))[1]
    readSync(openSync(`/proc/${worker}/mem`, 'r'), Buffer.alloc(1), 0, 1, Number.parseInt(place, 16))
    return 'reached'
  },
  "the worker's open files": () => (readdirSync(`/proc/${worker}/fd`).length > 0 ? 'reached' : 'none'),
  'a file that the worker was started with': () => {
    const text = Buffer.alloc(100)
    return found(text.toString('utf8', 0, readSync(100, text, 0, 100, 0)))
  },
  "the worker's process": () => {
    process.kill(worker, 0)
    return 'reached'
  },
  'the config file': () => found(readFileSync(input.config, 'utf8')),
  'a key file': () => found(readFileSync(input.key, 'utf8')),
  'the data of the database': () => (readdirSync(input.data).length > 0 ? 'reached' : 'empty'),
  'workdirs of others': () => {
    readdirSync(dirname(process.cwd()))
    return 'reached'
  },
  'the user root': () => {
    process.setuid(0)
    return process.getuid() === 0 ? 'reached' : 'refused'
  },
}

const outcome = Object.fromEntries(Object.entries(attacks).map(([name, reach]) => [name, attempt(reach)]))
outcome['the socket of the database'] = await new Promise((resolve) => {
  connect(input.socket)
    .on('connect', () => resolve('reached'))
    .on('error', (error) => resolve(error.code))
}).catch(String)

// What the worker, who has more rights, removes afterwards: it must not follow the link, nor stop at the closed folder.
mkdirSync('closed/inner', { recursive: true })
writeFileSync('closed/inner/file', 'x')
symlinkSync(input.outside, 'closed/link')
spawn('/bin/chmod', ['000', 'closed/inner']).on('exit', () => {
  const who = {
    uid: process.getuid(),
    gid: process.getgid(),
    groups: process.getgroups(),
    home: process.env.HOME,
  }
  const result = { who, outcome, workdir: process.cwd() }
  writeFileSync(process.env.SLUICE_RESULT, JSON.stringify(result))
  process.exit(0)
})
