import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { plantHolder } from '../support/state/assigned.ts'
import {
  commandsOfPage,
  commandsOfSource,
  complaintAbout,
  textsBelow,
  type WrittenCommand,
} from '../support/written-commands.ts'
import { Cli } from './cli.ts'

const PAGES: readonly (readonly [folder: string, name: RegExp])[] = [
  ['.', /^[A-Z]+\.md$/],
  ['docs', /\.md$/],
  ['examples', /\.md$/],
  ['dashboard', /^README\.md$/],
]
const SOURCES: readonly (readonly [folder: string, name: RegExp])[] = [
  ['src', /(?<!\.test)\.ts$/],
  ['sql/functions', /\.sql$/],
  ['dashboard/src', /(?<!\.test)\.tsx?$/],
]

/** What the pages have in their examples. */
const FILE = `
lanes:
  video: { slots: 2, tasks: [convert, resize] }
  mail: { slots: 2 }
  interactive: { slots: 2 }
  crawl: { slots: 2 }
tasks:
  resize: { exec: [/bin/true] }
  convert: { exec: [/bin/true] }
  cleanup: { exec: [/bin/true] }
budgets: { licences: 2, vram: { gpu0: 24GB } }
schedules: { nightly: { task: resize, cron: '0 3 * * *' } }
fleet: { pools: { burst: { max: 3, provisioner: command, options: { argv: [/bin/true] } } } }
`

let ofPages: WrittenCommand[] = []
let ofSources: WrittenCommand[] = []

beforeAll(async () => {
  const pages = await Promise.all(PAGES.map(([folder, name]) => textsBelow(folder, name)))
  ofPages = pages.flat().flatMap(({ file, text }) => commandsOfPage(file, text))
  const sources = await Promise.all(SOURCES.map(([folder, name]) => textsBelow(folder, name)))
  const found = await Promise.all(sources.flat().map(({ file, text }) => commandsOfSource(file, text)))
  ofSources = found.flat()
})

async function complaints(commands: readonly WrittenCommand[]): Promise<string[]> {
  const found: string[] = []
  for (const command of commands) {
    const complaint = await complaintAbout(command)
    if (complaint !== undefined) found.push(`${command.file}:${command.line}: ${complaint}`)
  }
  return found
}

test('every command in the documentation is one that the program accepts', async () => {
  expect(ofPages.filter(({ whole }) => whole).length).toBeGreaterThan(60)
  expect(await complaints(ofPages)).toEqual([])
})

test('every command in a message, an advice, a help text or the dashboard is one that the program accepts', async () => {
  const lines = ofSources.map(({ args }) => args.join(' '))
  expect(lines).toEqual(expect.arrayContaining(['workers undrain 1', 'admission --max-active 1', 'worker']))
  expect(lines.length).toBeGreaterThan(100)
  expect(await complaints(ofSources)).toEqual([])
})

describe('on a system that has what they name', () => {
  const database = useDatabase({ asMigrated: true })
  const cli = new Cli(() => ({ DATABASE_URL: database.url }))

  beforeAll(async () => {
    await cli.write('sluice.yaml', FILE)
    expect((await cli.run(['submit', 'resize'])).code).toBe(0)
    await plantHolder(database.sql, 'w1', 'video')
  })

  test('the commands of the guides that end by themselves run', async () => {
    const wrong: string[] = []
    for (const { file, line, args } of ofPages.filter(({ whole, args }) => whole && endsByItself(args))) {
      const { code, stderr } = await cli.run(args)
      // A job or a name of the page may not exist here. That is an answer; a wrong option or a bug is none.
      const isAnswer = code === 0 || (code === 1 && !stderr.includes('This is a bug'))
      if (!isAnswer) wrong.push(`${file}:${line}: sluice ${args.join(' ')}: ${code}: ${stderr}`)
    }
    expect(wrong).toEqual([])
  })
})

/** Serving, waiting and watching go on until they are stopped. Files of a page are not here, nor is a worker with devices. */
function endsByItself(args: readonly string[]): boolean {
  const [command = ''] = args
  if (['up', 'server', 'worker', 'run', 'sim', 'tour', 'top'].includes(command)) return false
  return !args.some((arg) => ['--wait', '-f', '--watch', '--limit'].includes(arg))
}

describe('commands are found', () => {
  const pageOf = (...lines: string[]) => commandsOfPage('page.md', lines.join('\n')).map(({ args }) => args)

  test('in shell code, without comments, quotes, variables and what surrounds them', () => {
    const block = [
      '```sh',
      'sluice ps --all   # everything',
      "DATABASE_URL=postgres://... npx sluice keys create box --tasks 'a b' | jq",
      'source <(sluice completion bash)',
      'node dist/cli/main.js \\',
      '  lanes set video',
      'git clone <address> sluice',
      '```',
    ]
    expect(pageOf(...block)).toEqual([
      ['ps', '--all'],
      ['keys', 'create', 'box', '--tasks', 'a b'],
      ['completion', 'bash'],
      ['lanes', 'set', 'video'],
    ])
  })

  test('in backticks, with values for placeholders', () => {
    expect(pageOf('Run `npx sluice window JOB SIZE`, or `sluice check [FILE]`.')).toEqual([
      ['window', '1', '1'],
      ['check', 'file'],
    ])
  })

  const inSource = async (text: string) => (await commandsOfSource('a.ts', text)).map(({ args }) => args)

  test.each([
    ["advice: 'sluice lanes lists them'", ['lanes']],
    ['`sluice resume ${lane.name} resumes it`', ['resume', '1']],
    ["'Let one go on with: sluice workers undrain NAME, or stop it'", ['workers', 'undrain', 'name']],
    ['`: sluice admission ${off.join(" ")}`', ['admission']],
    ["'run: sluice lanes make NAME'", ['lanes', 'make', 'name']],
    [
      `command="sluice schedules create NAME --cron '0 3 * * *'"`,
      ['schedules', 'create', 'name', '--cron', '0 3 * * *'],
    ],
  ])('in the text %s', async (text, args) => {
    expect(await inSource(text)).toEqual([args])
  })

  test('outside of comments only, and not where sluice is a name', async () => {
    expect(await inSource("// with: sluice nothing\nconst a = 'install sluice in this folder'")).toEqual([])
  })

  test('reports a command that the program does not accept, with its position', async () => {
    const [wrong] = commandsOfPage('page.md', '```sh\nsluice lanes set video --size 4\n```')
    expect(await complaints([wrong!])).toEqual([
      "page.md:2: sluice lanes set video --size 4: error: unknown option '--size'",
    ])
  })
})
