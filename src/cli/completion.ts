/** A command as its completion needs it. */
export interface Completed {
  readonly name: string
  readonly summary: string
  readonly options: readonly CompletedOption[]
  /** Its subcommands. */
  readonly below: readonly Completed[]
}

export interface CompletedOption {
  /** `--all`, and `-a` where it has a short form. */
  readonly flags: readonly string[]
  readonly description: string
  readonly takesValue: boolean
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The script that completes commands, subcommands and options in a shell; after an option with a value, file names. */
export function completionScript(shell: Shell, commands: readonly Completed[]): string {
  return { bash, zsh, fish }[shell](commands)
}

/** Every command line that has a completion of its own: `lanes`, `lanes set`. */
function paths(commands: readonly Completed[]): { readonly path: string; readonly command: Completed }[] {
  return commands.flatMap((command) => [
    { path: command.name, command },
    ...command.below.map((below) => ({ path: `${command.name} ${below.name}`, command: below })),
  ])
}

function bash(commands: readonly Completed[]): string {
  const cases = paths(commands).map(({ path, command }) => {
    const words = [...command.below.map(({ name }) => name), ...command.options.flatMap(({ flags }) => flags)]
    const valued = command.options.filter(({ takesValue }) => takesValue).flatMap(({ flags }) => flags)
    return `    ${quoted(path)}) words=${quoted(words.join(' '))} valued=${quoted(` ${valued.join(' ')} `)} ;;`
  })
  const withSubcommands = commands.filter(({ below }) => below.length > 0).map(({ name }) => name)
  return `# bash completion of sluice. Load it with: source <(sluice completion bash)
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local path=\${COMP_WORDS[1]} words= valued=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quoted([...commands.map(({ name }) => name), '--help', '--version'].join(' '))} -- "$current"))
    return
  fi
  case " ${withSubcommands.join(' ')} " in
    *" $path "*) if [ "$COMP_CWORD" -gt 2 ] && [[ \${COMP_WORDS[2]} != -* ]]; then path="$path \${COMP_WORDS[2]}"; fi ;;
  esac
  case "$path" in
${cases.join('\n')}
  esac
  case "$valued" in
    *" $previous "*) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ \${#COMPREPLY[@]} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _sluice sluice
`
}

function zsh(commands: readonly Completed[]): string {
  const described = (name: string, text: string) => quoted(`${name.replaceAll(':', '\\:')}:${text}`)
  const cases = paths(commands).map(({ path, command }) => {
    const words = [
      ...command.below.map(({ name, summary }) => described(name, summary)),
      ...command.options.flatMap(({ flags, description }) =>
        flags.map((flag) => described(flag, description)),
      ),
    ]
    const valued = command.options.filter(({ takesValue }) => takesValue).flatMap(({ flags }) => flags)
    return `    ${quoted(path)}) entries=(${words.join(' ')}); valued=${quoted(` ${valued.join(' ')} `)} ;;`
  })
  const withSubcommands = commands.filter(({ below }) => below.length > 0).map(({ name }) => name)
  return `#compdef sluice
# zsh completion of sluice. Load it with: source <(sluice completion zsh)
_sluice() {
  local -a entries
  local path_=$words[2] valued=
  if (( CURRENT == 2 )); then
    entries=(${commands.map(({ name, summary }) => described(name, summary)).join(' ')})
    _describe command entries
    return
  fi
  if [[ ${quoted(` ${withSubcommands.join(' ')} `)} == *" $path_ "* ]] && (( CURRENT > 3 )) && [[ $words[3] != -* ]]; then
    path_="$path_ $words[3]"
  fi
  case "$path_" in
${cases.join('\n')}
  esac
  if [[ "$valued" == *" $words[CURRENT-1] "* ]]; then
    _files
    return
  fi
  _describe argument entries || _files
}
if [[ $funcstack[1] == _sluice ]]; then _sluice "$@"; else compdef _sluice sluice; fi
`
}

function fish(commands: readonly Completed[]): string {
  const lines = [
    '# fish completion of sluice. Load it with: sluice completion fish | source',
    'complete -c sluice -n __fish_use_subcommand -f',
  ]
  for (const { name, summary, below, options } of commands) {
    lines.push(`complete -c sluice -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`)
    const seen = `__fish_seen_subcommand_from ${name}`
    const names = below.map((each) => each.name).join(' ')
    const bare = below.length === 0 ? seen : `${seen}; and not __fish_seen_subcommand_from ${names}`
    for (const option of options) lines.push(fishOption(bare, option))
    for (const sub of below) {
      lines.push(`complete -c sluice -n ${quoted(bare)} -f -a ${sub.name} -d ${quoted(sub.summary)}`)
      const under = `${seen}; and __fish_seen_subcommand_from ${sub.name}`
      for (const option of sub.options) lines.push(fishOption(under, option))
    }
  }
  return `${lines.join('\n')}\n`
}

function fishOption(condition: string, { flags, description, takesValue }: CompletedOption): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
  return `complete -c sluice -n ${quoted(condition)} ${names.join(' ')} ${takesValue ? '-r ' : ''}-d ${quoted(description)}`
}

/** In single quotes. The three shells understand this form of a quote inside. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
