// Writes the parts of docs/reference that follow from the fields of src/model/fields. They stand between comments:
//
//     <!-- generated: keys of lanes -->
//     <!-- end of generated -->
//
// Run `npm run build` first. test/behaviour/config-reference.test.ts fails where a part is stale.
import { readFileSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = resolve(import.meta.dirname, '..')
const PART = /<!-- generated: (\w+) of (\w+) -->\n[\s\S]*?<!-- end of generated -->/g
const WIDTH = 150

/** The keys that are above the fields in the config file, and beside them. */
const KEYS = {
  pools: {
    prefix: 'fleet.pools.NAME',
    above: [
      ['fleet', '', 'a map'],
      ['fleet.pools', '', 'a map of pool names'],
      ['fleet.pools.NAME', '', 'a map'],
    ],
  },
  admission: {
    prefix: 'admission',
    above: [['admission', '', 'a map']],
    below: [
      ['admission.maxQueued', '', 'a map of task names'],
      ['admission.maxQueued.NAME', 'none', '>= 1, or none'],
    ],
  },
  schedules: {
    prefix: 'schedules.NAME',
    above: [
      ['schedules', '', 'a map of schedule names'],
      ['schedules.NAME', '', 'a map'],
    ],
  },
  lanes: {
    prefix: 'lanes.NAME',
    above: [
      ['lanes', '', 'a map of lane names'],
      ['lanes.NAME', '', 'a map'],
      ['lanes.NAME.tasks', '', 'a list of task names'],
    ],
  },
}

/** Fields that are no keys of the config file: a capacity is the budget itself, and the deadline is a setting. */
const NO_KEY = { budgets: ['capacity'], admission: ['deadline'] }

/** Options beside those of fields. */
const MORE_OPTIONS = {
  admission: [
    row(
      '`--max-queued TASK=NUMBER`',
      'the most root jobs of a task that wait for approval, a retry or capacity, or `none`; may be repeated',
    ),
  ],
  budgets: [
    row(
      '`--limit DEVICE=AMOUNT`',
      'the maximum that may be held on a device, by its key, or by its name on every machine; `none`: all that the device has. A value above that is rejected. May be repeated',
    ),
  ],
}

const WRITE = {
  /** The table of keys in the config file. */
  keys: (thing, fields) => [
    '| key | default | bound |',
    '|---|---|---|',
    ...KEYS[thing].above.map(([key, ...rest]) => row(`\`${key}\``, ...rest)),
    ...keysOf(thing, fields).map(([name, field]) =>
      row(`\`${KEYS[thing].prefix}.${name}\``, defaultOf(field), field.bound),
    ),
    ...(KEYS[thing].below ?? []).map(([key, ...rest]) => row(`\`${key}\``, ...rest)),
  ],
  /** What each field means. */
  fields: (thing, fields) =>
    keysOf(thing, fields).flatMap(([name, field]) =>
      wrap(
        `- \`${name}\`${boundsOf(thing, field)}: ${lowerFirst(field.text)}.${field.more === undefined ? '' : ` ${field.more}`}`,
      ),
    ),
  /** The options of the command that changes it. */
  options: (thing, fields) => [
    '| option | |',
    '|---|---|',
    ...entries(fields)
      .filter(([, field]) => field.hasOption)
      .map(([name, field]) => row(`\`--${kebab(name)} ${placeholderOf(field)}\``, lowerFirst(field.text))),
    ...(MORE_OPTIONS[thing] ?? []),
  ],
}

/** The page with its generated parts as they should be. */
export function withParts(page, registries) {
  return page.replace(PART, (_, kind, thing) => {
    const lines = WRITE[kind](thing, registries[thing])
    return [`<!-- generated: ${kind} of ${thing} -->`, '', ...lines, '', '<!-- end of generated -->'].join(
      '\n',
    )
  })
}

export const PAGES = ['configuration', 'cli'].map((name) => join(root, 'docs/reference', `${name}.md`))

function entries(fields) {
  return Object.entries(fields)
}

function keysOf(thing, fields) {
  return entries(fields).filter(([name]) => !NO_KEY[thing]?.includes(name))
}

function row(...cells) {
  return `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')
}

/** Default and bound, where no table has them. */
function boundsOf(thing, field) {
  return KEYS[thing] === undefined ? ` (${defaultOf(field)}; ${field.bound})` : ''
}

function defaultOf(field) {
  return field.defaultText ?? (field.default === undefined ? '' : field.format(field.default))
}

/** What is replaced by a value is in capitals; words are written as they are. */
function placeholderOf({ placeholder }) {
  const [first, ...words] = placeholder.split('|')
  const isKind = /^(?:number|duration|amount|text|path)$/.test(first)
  return [isKind ? first.toUpperCase() : first, ...words].join('\\|')
}

function lowerFirst(text) {
  return `${text.charAt(0).toLowerCase()}${text.slice(1)}`
}

function kebab(name) {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

function wrap(text) {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)
    if (line !== '' && line.length + 1 + word.length > WIDTH) lines.push(`  ${word}`)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { REGISTRIES } = await import('../dist/model/fields/registries.js')
  for (const file of PAGES) {
    const page = readFileSync(file, 'utf8')
    const text = withParts(page, REGISTRIES)
    if (text === page) continue
    writeFileSync(file, text)
    console.log(`wrote ${relative(root, file)}`)
  }
}
