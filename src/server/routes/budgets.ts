import { Type } from 'typebox'
import {
  BudgetBody,
  BudgetChangeBody,
  BudgetCreateBody,
  BudgetParams,
  BudgetsBody,
} from '../../api/budgets.ts'
import { changeBudget, createBudget, deleteBudget, resetBudget } from '../../engine/operate/operator-acts.ts'
import { viewBudget, viewBudgets } from '../../engine/views/budget-view.ts'
import { toBudgetBody, toBudgetsBody } from '../bodies/budget-body.ts'
import { changeAsOperator } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/budgets`: what there is, what is held, loaded and waited for; an operator's change to one. */
export function budgetRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.services
  const tags = ['budgets']

  server.get(
    '/admin/budgets',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Budgets with their devices and what comes next there, models, and what waits',
        tags,
        response: { 200: BudgetsBody },
      },
    },
    async () => toBudgetsBody(await viewBudgets(calls)),
  )

  server.get(
    '/admin/budgets/:name',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'One budget', tags, params: BudgetParams, response: { 200: BudgetBody } },
    },
    async (request) => toBudgetBody(await viewBudget(calls, request.params.name)),
  )

  server.post(
    '/admin/budgets',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Create a budget for the whole system',
        description:
          'No file has to declare it. Budgets with devices are declared in files, because machines offer the devices.',
        tags,
        body: BudgetCreateBody,
        response: { 201: BudgetBody },
      },
    },
    async (request, reply) => {
      const { name, ...given } = request.body
      await changeAsOperator(parts, request, createBudget(name, given))
      reply.code(201)
      return toBudgetBody(await viewBudget(calls, name))
    },
  )

  server.patch(
    '/admin/budgets/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change a budget',
        description:
          'Stays until it is reset, whatever files say. Less stops nothing that runs: new jobs wait until enough has been returned.',
        tags,
        params: BudgetParams,
        body: BudgetChangeBody,
        response: { 200: BudgetBody },
      },
    },
    async (request) => {
      const { name } = request.params
      await changeAsOperator(parts, request, changeBudget(name, request.body))
      return toBudgetBody(await viewBudget(calls, name))
    },
  )

  server.post(
    '/admin/budgets/:name/reset',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Forget what operators changed: the budget is again as files and programs last said',
        tags,
        params: BudgetParams,
        response: { 200: BudgetBody },
      },
    },
    async (request) => {
      const { name } = request.params
      await changeAsOperator(parts, request, resetBudget(name))
      return toBudgetBody(await viewBudget(calls, name))
    },
  )

  server.delete(
    '/admin/budgets/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Remove a budget that has left the file',
        description:
          'Refused while tasks use it that live workers run, that the last worker of a pool ran, or whose jobs have not ended. One that a file still names is there again when that is next applied.',
        tags,
        params: BudgetParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      await changeAsOperator(parts, request, deleteBudget(name))
      return reply.code(204).send(null)
    },
  )
}
