import type { Declare } from './command.ts'

export interface CatalogueEntry {
  readonly name: string
  /** Other names of the command. Help does not list them. */
  readonly aliases?: readonly string[]
  readonly summary: string
  readonly group: string
  /** The code of a command is only loaded when it is called: `sluice --help` loads none of it. */
  readonly load: () => Promise<Declare>
  /** What it does when a server is named: `refuses`, since it needs the database; `ignores`, since it works here. Else it speaks to it. */
  readonly withServer?: 'refuses' | 'ignores'
  /** What takes a --reason for the audit: the command itself, or these of the commands below it. */
  readonly changes?: true | readonly string[]
}

const RUN = 'Run jobs:'
const LOOK = 'Look:'
const OPERATE = 'Operate:'
const LOOK_AFTER = 'Set up and look after:'

/** Every command, in the order of the help. */
export const CATALOGUE: readonly CatalogueEntry[] = [
  {
    name: 'run',
    summary: 'run a workflow file to its end',
    group: RUN,
    withServer: 'ignores',
    load: async () => (await import('./commands/run.ts')).declareRun,
  },
  {
    name: 'up',
    summary: 'database, HTTP server and worker in one process',
    group: RUN,
    withServer: 'ignores',
    load: async () => (await import('./commands/up.ts')).declareUp,
  },
  {
    name: 'server',
    summary: 'serve the HTTP API until it is stopped',
    group: RUN,
    withServer: 'ignores',
    load: async () => (await import('./commands/server.ts')).declareServer,
  },
  {
    name: 'worker',
    summary: 'run jobs in this process until it is stopped',
    group: RUN,
    load: async () => (await import('./commands/worker.ts')).declareWorker,
  },
  {
    name: 'submit',
    summary: 'store a job or a workflow, and wait for it if asked to',
    group: RUN,
    load: async () => (await import('./commands/submit.ts')).declareSubmit,
  },
  {
    name: 'ps',
    summary: 'list jobs',
    group: LOOK,
    load: async () => (await import('./commands/ps.ts')).declarePs,
  },
  {
    name: 'show',
    summary: 'show everything about a job',
    group: LOOK,
    load: async () => (await import('./commands/show.ts')).declareShow,
  },
  {
    name: 'tree',
    summary: 'show a workflow with all that is below it',
    group: LOOK,
    load: async () => (await import('./commands/tree.ts')).declareTree,
  },
  {
    name: 'trace',
    summary: 'go back from a failure to where it came from',
    group: LOOK,
    load: async () => (await import('./commands/trace.ts')).declareTrace,
  },
  {
    name: 'why',
    summary: 'say what a job waits for',
    group: LOOK,
    load: async () => (await import('./commands/why.ts')).declareWhy,
  },
  {
    name: 'errors',
    summary: 'list failures by what their errors have in common',
    group: LOOK,
    load: async () => (await import('./commands/errors.ts')).declareErrors,
  },
  {
    name: 'logs',
    summary: 'print the log of a job',
    group: LOOK,
    load: async () => (await import('./commands/logs.ts')).declareLogs,
  },
  {
    name: 'tasks',
    summary: 'list what can be submitted; forget a task',
    group: LOOK,
    changes: ['delete'],
    load: async () => (await import('./commands/tasks.ts')).declareTasks,
  },
  {
    name: 'lanes',
    summary: 'list lanes; create, change or delete one; move a task',
    group: LOOK,
    changes: ['create', 'delete', 'move', 'set', 'reset'],
    load: async () => (await import('./commands/lanes.ts')).declareLanes,
  },
  {
    name: 'admission',
    summary: 'show or change how much may enter',
    group: LOOK,
    changes: true,
    load: async () => (await import('./commands/admission.ts')).declareAdmission,
  },
  {
    name: 'workers',
    summary: 'list workers; let one take no more jobs',
    group: LOOK,
    changes: ['drain', 'undrain', 'stop'],
    load: async () => (await import('./commands/workers.ts')).declareWorkers,
  },
  {
    name: 'fleet',
    summary: 'pools of workers, what overflows, who was started and why',
    group: LOOK,
    changes: ['set', 'reset'],
    load: async () => (await import('./commands/fleet.ts')).declareFleet,
  },
  {
    name: 'devices',
    aliases: ['gpu'],
    summary: 'devices, the models on them, and the jobs that wait',
    group: LOOK,
    load: async () => (await import('./commands/devices.ts')).declareDevices,
  },
  {
    name: 'budgets',
    summary: 'list budgets; change one',
    group: LOOK,
    changes: ['set', 'reset', 'delete'],
    load: async () => (await import('./commands/budgets.ts')).declareBudgets,
  },
  {
    name: 'schedules',
    summary: 'list schedules; add, change, fire or remove one',
    group: LOOK,
    changes: ['add', 'set', 'enable', 'disable', 'reset', 'rm', 'fire'],
    load: async () => (await import('./commands/schedules.ts')).declareSchedules,
  },
  {
    name: 'cancel',
    aliases: ['kill'],
    summary: 'cancel jobs, waiting or running',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/cancel.ts')).declareCancel,
  },
  {
    name: 'priority',
    aliases: ['nice'],
    summary: 'change the priority of waiting jobs or of workflows',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/priority.ts')).declarePriority,
  },
  {
    name: 'window',
    summary: 'change how many children of a fan-out run at once',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/window.ts')).declareWindow,
  },
  {
    name: 'approve',
    summary: 'let jobs run that wait for approval',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/approve.ts')).declareApprove,
  },
  {
    name: 'reject',
    summary: 'cancel a job that waits for approval',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/reject.ts')).declareReject,
  },
  {
    name: 'retry',
    summary: 'run finished jobs again, or parts of a workflow',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/retry.ts')).declareRetry,
  },
  {
    name: 'rm',
    summary: 'delete finished jobs with all their traces',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/rm.ts')).declareRm,
  },
  {
    name: 'pause',
    aliases: ['drain'],
    summary: 'pause a lane: it starts no more jobs',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/pause.ts')).declarePause,
  },
  {
    name: 'resume',
    summary: 'resume a paused lane',
    group: OPERATE,
    changes: true,
    load: async () => (await import('./commands/resume.ts')).declareResume,
  },
  {
    name: 'sim',
    summary: 'play a workload under the budget policy and others',
    group: LOOK_AFTER,
    withServer: 'ignores',
    load: async () => (await import('./commands/sim.ts')).declareSim,
  },
  {
    name: 'check',
    summary: 'check a config or workflow file, and nothing else',
    group: LOOK_AFTER,
    withServer: 'ignores',
    load: async () => (await import('./commands/check.ts')).declareCheck,
  },
  {
    name: 'keys',
    summary: 'list API keys; make, change or revoke one',
    group: LOOK_AFTER,
    changes: ['create', 'set', 'revoke'],
    load: async () => (await import('./commands/keys.ts')).declareKeys,
  },
  {
    name: 'roles',
    summary: 'list roles; make or change one',
    group: LOOK_AFTER,
    changes: ['create', 'change', 'delete'],
    load: async () => (await import('./commands/roles.ts')).declareRoles,
  },
  {
    name: 'audit',
    summary: 'show who did what',
    group: LOOK_AFTER,
    load: async () => (await import('./commands/audit.ts')).declareAudit,
  },
  {
    name: 'migrate',
    summary: 'bring the schema of the database up to date',
    group: LOOK_AFTER,
    withServer: 'refuses',
    load: async () => (await import('./commands/migrate.ts')).declareMigrate,
  },
  {
    name: 'doctor',
    summary: 'examine the system and say what to do about it',
    group: LOOK_AFTER,
    withServer: 'refuses',
    load: async () => (await import('./commands/doctor.ts')).declareDoctor,
  },
  {
    name: 'tour',
    summary: 'watch a few hundred sample jobs run',
    group: LOOK_AFTER,
    withServer: 'ignores',
    load: async () => (await import('./commands/tour.ts')).declareTour,
  },
]
