import { type Static, Type } from 'typebox'

/** The body of every refusal and failure: RFC 9457, with a stable code. */
export const Problem = Type.Object(
  {
    type: Type.String({ description: 'Always "about:blank": the code says what kind of problem it is' }),
    title: Type.String({ description: 'The name of the HTTP status' }),
    status: Type.Integer(),
    detail: Type.String({ description: 'For people: what was found, where, and what would be right' }),
    code: Type.String({
      description: 'For programs: it never changes its meaning',
      examples: ['JOB_NOT_FOUND'],
    }),
    requestId: Type.String({ description: "The same as in the server's log and in the audit" }),
  },
  {
    additionalProperties: true,
    description: 'Further members are facts about the problem: ids, states, limits',
  },
)

export type Problem = Static<typeof Problem>

export const PROBLEM_TYPE = 'application/problem+json'
