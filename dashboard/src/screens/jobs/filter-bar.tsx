import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { client } from '../../connection.ts'
import { useNowSnapshot } from '../../live/now.ts'
import { Button, Choice, Input, Select } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { type Search, To, useAddress, useGo } from '../../parts/link.tsx'
import { countConditions, SPANS, TABS, TEXT_FIELDS, tabOf } from './filter.ts'

/** Tabs by state, with the numbers of those that move. */
export function Tabs() {
  const { search } = useAddress()
  const now = useNowSnapshot()
  const current = tabOf(search)
  // The numbers are of all jobs: beside conditions, or with steps, they would be those of another list.
  const plain = countConditions(search) === 0 && search.with !== 'steps'
  return (
    <nav className="tabs" aria-label="States">
      {TABS.map(({ id, label, counts, filter }) => {
        return (
          <span key={id} data-current={id === current.id || undefined}>
            <To
              path="/jobs"
              search={{ ...search, tab: id === 'all' ? undefined : id, status: undefined, order: undefined }}
            >
              {label}
              {now !== undefined && counts !== undefined && plain && (
                <span className="tab-count">
                  {(now.states[counts] + (filter.children === true ? now.steps[counts] : 0)).toLocaleString()}
                  {now.more.includes(counts) && '+'}
                </span>
              )}
            </To>
          </span>
        )
      })}
    </nav>
  )
}

/** Conditions, kept in the address: whoever gets the link sees the same list. */
export function FilterBar() {
  const { search, change } = useAddress()
  const { data: tasks = [] } = useQuery({
    queryKey: ['tasks'],
    queryFn: () => client.listTasks(),
    staleTime: 60_000,
  })
  const lanes = [...new Set(tasks.flatMap(({ lane }) => (lane === null ? [] : [lane])))].sort()
  const conditions = countConditions(search)
  const cleared = Object.fromEntries(
    [...TEXT_FIELDS, 'span', 'from', 'to', 'status'].map((name) => [name, undefined]),
  )
  return (
    <search className="filter-bar">
      <QuickSearch />
      <Choices name="task" label="Task" all="Every task" options={tasks.map(({ name }) => name)} />
      <Choices name="lane" label="Lane" all="Every lane" options={lanes} />
      <Typed name="key" label="Key" />
      <Typed name="tag" label="Tag" />
      <Typed name="submittedBy" label="Submitted by" />
      <Select
        aria-label="Submitted"
        value={search.span ?? ''}
        onChange={(event) => change({ span: event.target.value, from: undefined, to: undefined })}
      >
        <option value="">Any time</option>
        {SPANS.map(({ id, label }) => (
          <option key={id} value={id}>
            {label}
          </option>
        ))}
      </Select>
      <Button kind="quiet" disabled={conditions === 0} onClick={() => change(cleared)}>
        {conditions === 0 ? 'Clear' : `Clear ${count(conditions, 'filter')}`}
      </Button>
    </search>
  )
}

/** How the list is put together: in which order, and whether it shows the steps of workflows. */
export function ListOptions() {
  const { search, change } = useAddress()
  return (
    <span className="list-options">
      {tabOf(search).id === 'queued' && (
        <Choice
          label="Order"
          value={search.order === 'line' ? 'line' : 'newest'}
          options={[
            { value: 'newest', label: 'Newest first' },
            { value: 'line', label: 'Next to start first' },
          ]}
          onChange={(value) => change({ order: value === 'line' ? value : undefined })}
        />
      )}
      <WithSteps />
    </span>
  )
}

/** A tree is in lists by its root; here its steps are too, as they take slots of lanes and are counted there. */
function WithSteps() {
  const { search, change } = useAddress()
  return (
    <label className="with-steps">
      <input
        type="checkbox"
        checked={search.with === 'steps'}
        onChange={(event) => change({ with: event.target.checked ? 'steps' : undefined })}
      />
      Include workflow steps
    </label>
  )
}

/** A number opens the job; anything else is searched for in errors. */
function QuickSearch() {
  const { search, change } = useAddress()
  const [text, setText] = useTyped(search.error)
  const go = useGo()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const wanted = text.trim().replace(/^#/, '')
    if (/^[1-9]\d{0,18}$/.test(wanted)) go(`/jobs/${wanted}`)
    else change({ error: text.trim() })
  }
  return (
    <form onSubmit={submit} className="quick-search">
      <Input
        type="search"
        aria-label="Job ID, or text in the error"
        placeholder="Job ID, or text in the error"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={() =>
          text.trim() !== (search.error ?? '') &&
          !/^#?\d+$/.test(text.trim()) &&
          change({ error: text.trim() })
        }
      />
    </form>
  )
}

function Choices({
  name,
  label,
  all,
  options,
}: {
  name: 'task' | 'lane'
  label: string
  all: string
  options: readonly string[]
}) {
  const { search, change } = useAddress()
  const value = search[name] ?? ''
  const known = value === '' || options.includes(value) ? options : [value, ...options]
  return (
    <Select aria-label={label} value={value} onChange={(event) => change({ [name]: event.target.value })}>
      <option value="">{all}</option>
      {known.map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </Select>
  )
}

function Typed({ name, label }: { name: 'key' | 'tag' | 'submittedBy'; label: string }) {
  const { search, change } = useAddress()
  const [text, setText] = useTyped(search[name])
  const apply = () => {
    if (text.trim() !== (search[name] ?? '')) change({ [name]: text.trim() } satisfies Search)
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        apply()
      }}
    >
      <Input
        aria-label={label}
        placeholder={label}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={apply}
      />
    </form>
  )
}

/** What is being typed; what the address says takes its place when that changes. */
function useTyped(given: string | undefined): [string, (text: string) => void] {
  const [state, setState] = useState({ given, text: given ?? '' })
  const current = state.given === given ? state : { given, text: given ?? '' }
  return [current.text, (text) => setState({ given, text })]
}
