import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'
import { CATALOGUE } from '../../src/cli/catalogue.ts'
import type { World } from '../../src/cli/command.ts'
import { addCommandOptions } from '../../src/cli/command-options.ts'
import { EXIT } from '../../src/cli/exit-code.ts'
import { Interrupts } from '../../src/cli/interrupts.ts'
import type { Output } from '../../src/cli/output/output.ts'
import { runProgram } from '../../src/cli/program.ts'

const REPOSITORY = new URL('../../', import.meta.url)

/** A command line of sluice that a page of the documentation or a text of the program shows to people. */
export interface WrittenCommand {
  readonly file: string
  readonly line: number
  /** What follows `sluice`, as a shell passes it. Placeholders such as NAME are replaced by values that fit. */
  readonly args: readonly string[]
  /** It is there to be copied, so nothing may be missing. In prose `sluice lanes set` is the name of a command. */
  readonly whole: boolean
}

/** Files below a folder of the repository, with their texts. */
export async function textsBelow(folder: string, name: RegExp): Promise<{ file: string; text: string }[]> {
  const root = new URL(`${folder}/`, REPOSITORY)
  const files = (await readdir(root, { recursive: true })).filter((file) => name.test(file)).sort()
  return Promise.all(
    files.map(async (file) => ({
      file: `${folder}/${file}`,
      text: await readFile(fileURLToPath(new URL(file, root)), 'utf8'),
    })),
  )
}

/** The commands of a page: those in blocks of shell code, and those in backticks. */
export function commandsOfPage(file: string, text: string): WrittenCommand[] {
  const found: WrittenCommand[] = []
  const prose = text.replace(/^```(\w*)[^\n]*\n([\s\S]*?)^```$/gm, (block, language, code, at) => {
    if (language === 'sh') {
      for (const { words, offset } of shellCommands(code)) {
        const args = argumentsOf(words)
        const line = lineAt(text, at) + 1 + lineAt(code, offset) - 1
        if (args !== undefined) found.push({ file, line, args, whole: true })
      }
    }
    return block.replaceAll(/[^\n]/g, ' ')
  })
  for (const match of prose.matchAll(/`(?:npx )?sluice ([^`]+)`/g))
    for (const { words } of shellCommands(match[1]!))
      found.push({ file, line: lineAt(text, match.index), args: words.map(sampleOf), whole: false })
  return found
}

/** The commands in texts of a program, which are what its code has outside of comments. */
export async function commandsOfSource(file: string, text: string): Promise<WrittenCommand[]> {
  const code = text
    .replaceAll(/\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, ' '))
    .replaceAll(/^\s*(\/\/|--).*$/gm, '')
  const commands = await declaredCommands()
  const found: WrittenCommand[] = []
  for (const match of code.matchAll(/(['"`>]|[:;,.(] |\b(?:with|run|or|and) )(?:npx )?sluice (?=[a-z-])/g)) {
    const rest = code.slice(match.index + match[0].length)
    const words = wordsOfCommand(rest, commands)
    if (words.length === 0 || NOT_COMMANDS.has(words[0]!)) continue
    found.push({ file, line: lineAt(code, match.index), args: words.map(sampleOf), whole: false })
  }
  return found
}

/** Words that follow the name `sluice` where no command is meant. */
const NOT_COMMANDS = new Set(['csrf', 'pool'])

/** Parses a command with the program itself, and returns what the program would complain of. */
export async function complaintAbout({ args, whole }: WrittenCommand): Promise<string | undefined> {
  const said = new Said()
  const world = {
    out: new Said(),
    err: said,
    environment: { SLUICE_KEY: 'slk_example' },
    folder: '/',
    program: 'sluice',
    interrupts: new Interrupts(() => {}),
    now: () => new Date(),
    readInput: async () => '',
    open: () => Promise.reject(new Error('a command that is only parsed opens no database')),
  } satisfies Omit<World, 'catalogue'>
  const code = await runProgram(args, world, async () => EXIT.done)
  if (code === EXIT.done) return undefined
  if (!whole && /missing required argument|required option|argument missing/.test(said.text)) return undefined
  return `sluice ${args.join(' ')}: ${said.text.split('\n')[0]}`
}

class Said implements Output {
  text = ''
  readonly isTerminal = false
  readonly hasColour = false
  readonly columns = undefined
  readonly rows = undefined

  write(text: string): void {
    this.text += text
  }
  line(text = ''): void {
    this.write(`${text}\n`)
  }
  onResize(): () => void {
    return () => {}
  }
}

/** What `${...}`, NAME and the like stand for. A text without placeholders stays as it is. */
function sampleOf(word: string): string {
  const name = word.replaceAll(/^\[|\]$|\.\.\.$/g, '')
  if (name === TEMPLATE) return '1'
  if (/^[A-Z]+=[A-Z]+$/.test(name)) return 'name=value'
  if (!/^[A-Z]{1,}$/.test(name)) return name.replaceAll(TEMPLATE, '1')
  return SAMPLES[name] ?? name.toLowerCase()
}

const SAMPLES: Readonly<Record<string, string>> = {
  NUMBER: '1',
  N: '1',
  SIZE: '1',
  PRIORITY: '1',
  JOB: '1',
  ID: '1',
  AMOUNT: '1',
  DURATION: '1h',
  GROUP: '3f1c09ab77de',
  SHELL: 'bash',
  COMMAND: 'ps',
}

/** A word that a program fills in. */
const TEMPLATE = '\u{1}'

let declared: Promise<Map<string, Command>> | undefined

/** Every command with its options, by name and by alias. */
function declaredCommands(): Promise<Map<string, Command>> {
  declared ??= Promise.all(
    CATALOGUE.map(async (entry) => {
      const command = new Command(entry.name)
      ;(await entry.load())(command, async () => {})
      addCommandOptions(command, entry)
      return [entry.name, ...(entry.aliases ?? [])].map((name) => [name, command] as const)
    }),
  ).then((entries) => new Map(entries.flat()))
  return declared
}

/**
 * The words of a command at the beginning of a text, up to where the sentence goes on: "sluice lanes lists them" names the
 * command `lanes`. A word in small letters belongs to the command if it is a subcommand or the value of an option, or if
 * what follows can only belong to a command.
 */
function wordsOfCommand(text: string, commands: ReadonlyMap<string, Command>): string[] {
  const words: string[] = []
  const pieces = piecesOf(text)
  for (const [index, { word, isLast }] of pieces.entries()) {
    const command = commands.get(words[0] ?? '')
    const called = command?.commands.find((each) => each.name() === words[1]) ?? command
    const before = called?.options.find(({ long, short }) => words.at(-1) === long || words.at(-1) === short)
    const belongs =
      words.length === 0 ||
      isPart(word) ||
      before?.required === true ||
      (words.length === 1 && command?.commands.some((each) => each.name() === word)) ||
      (pieces[index + 1] !== undefined && !isLast && isPart(pieces[index + 1]!.word))
    if (!belongs) break
    words.push(word)
    if (isLast) break
  }
  return words
}

/** Whether a word cannot be part of a sentence. */
function isPart(word: string): boolean {
  return /^-|^\[?[A-Z]{2,}(?![a-z])|\d|["']/.test(word) || word.includes(TEMPLATE)
}

/** Words up to the end of the string or the sentence. */
function piecesOf(text: string): { word: string; isLast: boolean }[] {
  const pieces: { word: string; isLast: boolean }[] = []
  let rest = withoutTemplates(text)
  while (rest !== '') {
    const quoted = /^'([^'\n]*)'|^"([^"\n]*)"/.exec(rest)
    const match = quoted ?? /^[^\s'"`<]+/.exec(rest)
    if (match === null) break
    const raw = quoted === null ? match[0] : (match[1] ?? match[2] ?? '')
    const word = quoted === null ? raw.replace(/(?<!\.\.)[.,;:)?!\\]+$/, '') : raw
    rest = rest.slice(match[0].length)
    const isLast = word !== raw || !rest.startsWith(' ')
    if (word !== '') pieces.push({ word, isLast })
    if (isLast) break
    rest = rest.slice(1)
  }
  return pieces
}

/**
 * Replaces each `${...}`. One that joins a list stands for any number of words, and so does one right behind a word: both
 * are left out.
 */
function withoutTemplates(text: string): string {
  let result = ''
  for (let at = 0; at < text.length; at++) {
    if (!text.startsWith('${', at)) {
      result += text[at]
      continue
    }
    const from = at
    for (let depth = 0; at < text.length; at++) {
      if (text[at] === '{') depth++
      if (text[at] === '}' && --depth === 0) break
    }
    const inside = text.slice(from, at)
    if (inside.includes('uration(')) result += '1h'
    else if (!inside.includes('.join(') && !/[a-z]$/.test(result)) result += TEMPLATE
  }
  return result
}

interface ShellCommand {
  readonly words: readonly string[]
  /** Where it begins in the code. */
  readonly offset: number
}

/** The simple commands of shell code: its words without quotes, comments and operators. */
function shellCommands(code: string): ShellCommand[] {
  const commands: ShellCommand[] = []
  let words: string[] = []
  let begin = 0
  let toFile = false
  const end = () => {
    if (words.length > 0) commands.push({ words, offset: begin })
    words = []
  }
  const token =
    /\\\n|[ \t]+|(#[^\n]*)|([\n|;&()]|[<$]\()|([<>]+)|((?:'[^']*'|"(?:\\.|[^"\\])*"|[^\s|;&()<>'"\\]|\\.)+)/gy
  for (let match = token.exec(code); match !== null; match = token.exec(code)) {
    const [, , operator, redirection, word] = match
    if (operator !== undefined) end()
    if (redirection !== undefined) toFile = true
    if (word === undefined) continue
    if (toFile) {
      toFile = false
      continue
    }
    if (words.length === 0) begin = match.index
    words.push(word.replaceAll(/'([^']*)'|"((?:\\.|[^"\\])*)"/g, (_, single, double) => single ?? double))
  }
  end()
  return commands
}

/** What follows `sluice` in a command of a shell, if it calls it. */
function argumentsOf(words: readonly string[]): string[] | undefined {
  const rest = [...words]
  while (/^([A-Z_]+=|\$$|npx$)/.test(rest[0] ?? '')) rest.shift()
  if (rest[0] === 'node' && /cli\/main\.js$/.test(rest[1] ?? '')) return rest.slice(2).map(sampleOf)
  return rest[0] === 'sluice' ? rest.slice(1).map(sampleOf) : undefined
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length
}
