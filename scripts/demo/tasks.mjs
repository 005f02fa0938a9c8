import { task, workflow } from '../../dist/index.js'

/** Runs until it is cancelled, or the system is closed. */
const hold = (signal) =>
  new Promise((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )
/** Of a catalogue, what its supplier does not have. */
const MISSING = new Set([212, 417, 418, 905])
const pick = (list, n) => list[n % list.length]

/** What a shop with a machine-learning corner would run. Inputs say how each ends: `hold` runs on, `fail` fails. */
export function demoTasks(gpus) {
  const quick = (name, lane, extra = {}) =>
    task({
      name,
      lane,
      ...extra,
      run: async ({ n, hold: stays, fail, at = 0.4, message }, ctx) => {
        ctx.log.info(`${name} ${n} begins`)
        ctx.progress(at, message)
        if (fail != null) throw new Error(fail)
        if (stays) await hold(ctx.signal)
        return { n, bytes: 1000 + n * 37 }
      },
    })
  const plain = [
    quick('images.resize', 'interactive'),
    quick('invoices.render', 'interactive', { retry: { attempts: 1 } }),
    quick('payments.capture', 'interactive', { retry: { attempts: 1 } }),
    quick('mail.send', 'mail', { retry: { attempts: 5, delay: '20m' } }),
    quick('videos.transcode', 'batch'),
    quick('reports.monthly', 'nightly'),
    quick('search.reindex', 'batch', { retry: { attempts: 1 } }),
    quick('films.render', 'films', { requires: { zone: 'eu-3' } }),
    task({ name: 'releases.deploy', approval: true, lane: 'interactive', run: ({ version }) => version }),
  ]
  const llama = gpus.model('llama-70b', 42_000, 300)
  const whisper = gpus.model('whisper-large', 11_000, 200)
  const diffusion = gpus.model('sdxl', 14_000, 200)
  const onGpu = (name, each, uses) =>
    task({
      name,
      lane: 'gpu',
      model: each,
      uses: { vram: uses },
      run: async ({ n, hold: stays }, ctx) => {
        ctx.progress(0.2 + (n % 7) / 10, `${pick(['prompt', 'chunk', 'batch'], n)} ${n}`)
        if (stays) await hold(ctx.signal)
        return n
      },
    })
  const ml = [
    onGpu('texts.summarise', llama, '42GB'),
    onGpu('speech.transcribe', whisper, '11GB'),
    onGpu('pictures.draw', diffusion, '14GB'),
  ]
  const fetchFeed = task({ name: 'catalogue.fetch', lane: 'imports', run: ({ items }) => ({ items }) })
  const importItem = task({
    name: 'catalogue.import-item',
    lane: 'imports',
    retry: { attempts: 1 },
    run: async ({ item }, ctx) => {
      if (MISSING.has(item)) throw new Error(`the supplier answered 404 for item ${item}`)
      if (item >= 1260) {
        ctx.progress((item % 10) / 10, `page ${item % 10} of 10`)
        await hold(ctx.signal)
      }
      return { item }
    },
  })
  const publish = task({ name: 'catalogue.publish', lane: 'batch', run: () => 'published' })
  const catalogue = workflow({
    name: 'catalogue.import',
    steps: (flow) => {
      const feed = flow.step('fetch', fetchFeed, { items: flow.input.items })
      const items = flow.each('items', feed.result.items, importItem, (item) => ({ item }), {
        concurrency: 24,
        strategy: { percent: 95 },
      })
      const index = flow.step('reindex', plain[6], { n: 1 }, { needs: [items] })
      flow.step('publish', publish, { after: index.result })
      return index.result
    },
  })
  const ship = workflow({
    name: 'orders.ship',
    steps: (flow) => {
      const invoice = flow.step('invoice', plain[1], { n: flow.input.order })
      const label = flow.step('label', plain[0], { n: flow.input.order })
      const payment = flow.step('payment', plain[2], {
        n: flow.input.order,
        fail: flow.input.fail,
        invoice: invoice.result,
      })
      flow.step('mail', plain[3], { n: flow.input.order, payment: payment.result, label: label.result })
      return payment.result
    },
  })
  return { tasks: [...plain, ...ml, fetchFeed, importItem, publish], workflows: [catalogue, ship] }
}
