import { useQuery } from '@tanstack/react-query'
import { client } from '../connection.ts'
import { useNowSnapshot } from '../live/now.ts'
import { useGo } from '../parts/link.tsx'
import { SCREENS } from '../screens/index.ts'
import { useSwitchLane } from '../screens/lanes/controls.tsx'
import { useSession } from '../session.tsx'
import { GROUPS, isOpenTo } from './navigation.tsx'
import type { Finding } from './rank.ts'
import { useTheme } from './theme.ts'

/** What each screen answers, beside its name. */
const ABOUT: Readonly<Record<string, string>> = {
  '/': 'status of the system',
  '/jobs': 'every job and workflow',
  '/errors': 'failures in groups',
  '/recovery': 'automatic repairs',
  '/lanes': 'limits and pauses',
  '/workers': 'workers and pools',
  '/gpu': 'models and budgets',
  '/approvals': 'jobs that need approval',
  '/schedules': 'jobs by the clock',
  '/access': 'API keys and roles',
  '/audit': 'who changed what',
}

/** Tabs of the list of jobs that people look for by name. */
const TABS = ['queued', 'running', 'failed', 'scheduled', 'retrying'] as const

/** Screens, lanes, tasks, schedules, workers and actions, as far as the role allows them. */
export function useCommands(onHelp: () => void): Finding[] {
  const { may } = useSession()
  const go = useGo()
  const [, setTheme] = useTheme()
  const switchLane = useSwitchLane()
  const now = useNowSnapshot()
  const readsJobs = may('jobs:read')
  const { data: tasks = [] } = useQuery({
    queryKey: ['tasks'],
    queryFn: () => client.listTasks(),
    staleTime: 60_000,
    enabled: readsJobs,
  })
  const { data: schedules = [] } = useQuery({
    queryKey: ['schedules'],
    queryFn: () => client.listSchedules(),
    staleTime: 10_000,
    enabled: may('jobs:submit') || may('jobs:read:all'),
  })
  const lanes = now?.lanes ?? []
  const manages = may('workers:manage')
  return [
    ...GROUPS.flatMap((group) =>
      SCREENS.filter((screen) => screen.group === group && isOpenTo(screen, may)),
    ).map(
      ({ path, label }): Finding => ({
        id: `screen-${label}`,
        group: 'Screens',
        label,
        hint: ABOUT[path] ?? '',
        first: true,
        run: () => go(path),
      }),
    ),
    ...(readsJobs ? TABS : []).map((tab) => ({
      id: `tab-${tab}`,
      group: 'Screens',
      label: `Jobs: ${tab}`,
      run: () => go('/jobs', { tab }),
    })),
    ...lanes.map(({ name, enabled }) => ({
      id: `lane-${name}`,
      group: 'Lanes',
      label: `Lane ${name}`,
      ...(!enabled && { hint: 'paused' }),
      run: () => go('/lanes', { lane: name }),
    })),
    ...(manages ? lanes : []).map(({ name, enabled, ...stand }) => ({
      id: `switch-${name}`,
      group: 'Actions',
      label: `${enabled ? 'Pause' : 'Resume'} lane ${name}…`,
      run: () => switchLane({ name, enabled, ...stand }),
    })),
    ...(manages
      ? [
          {
            id: 'new-lane',
            group: 'Actions',
            label: 'Create lane…',
            run: () => go('/lanes', { do: 'create' }),
          },
        ]
      : []),
    ...(may('access:manage')
      ? [
          {
            id: 'new-key',
            group: 'Actions',
            label: 'Create key…',
            run: () => go('/access', { do: 'create' }),
          },
        ]
      : []),
    ...tasks.map(({ name, lane }) => ({
      id: `task-${name}`,
      group: 'Tasks',
      label: name,
      hint: lane === null ? 'workflow' : `lane ${lane}`,
      run: () => go('/jobs', { task: name }),
    })),
    ...schedules.map(({ name, enabled }) => ({
      id: `schedule-${name}`,
      group: 'Schedules',
      label: `Schedule ${name}`,
      ...(!enabled && { hint: 'paused' }),
      run: () => go('/schedules', { name }),
    })),
    ...(['system', 'light', 'dark'] as const).map((theme) => ({
      id: `theme-${theme}`,
      group: 'Actions',
      label: `Theme: ${theme}`,
      run: () => setTheme(theme),
    })),
    {
      id: 'help',
      group: 'Actions',
      label: 'Keyboard shortcuts and states',
      hint: '?',
      first: true,
      run: onHelp,
    },
  ]
}
