import { AdmissionBody, AdmissionChangeBody } from '../../api/admission.ts'
import { getAdmission, settleAdmission } from '../../engine/operate/admission.ts'
import { changeAdmission, resetAdmission } from '../../engine/operate/operator-acts.ts'
import type { Admission } from '../../store/read-admission.ts'
import { changeAsOperator } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/admission`: the admission limits and their use. */
export function admissionRoutes(server: Server, parts: ServerParts): void {
  const { calls, gate } = parts.services
  const tags = ['admission']

  server.get(
    '/admin/admission',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'The admission limits and their use', tags, response: { 200: AdmissionBody } },
    },
    async () => toBody(await getAdmission(calls)),
  )

  server.patch(
    '/admin/admission',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change the admission limits',
        description:
          'The change persists until it is reset, whatever files declare. It applies to later submissions and stops no job.',
        tags,
        body: AdmissionChangeBody,
        response: { 200: AdmissionBody },
      },
    },
    async (request) => {
      await changeAsOperator(parts, request, changeAdmission(request.body))
      return settled()
    },
  )

  server.post(
    '/admin/admission/reset',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Reset the admission limits to the values that files and code declare',
        tags,
        response: { 200: AdmissionBody },
      },
    },
    async (request) => {
      await changeAsOperator(parts, request, resetAdmission())
      return settled()
    },
  )

  async function settled(): Promise<AdmissionBody> {
    await settleAdmission(calls)
    gate.forget()
    return toBody(await getAdmission(calls))
  }
}

function toBody({ operatorSet, defaultSet, ...rest }: Admission): AdmissionBody {
  return { ...rest, operatorSet: [...operatorSet], defaultSet: [...defaultSet] }
}
