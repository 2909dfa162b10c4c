/**
 * Judges mutants of the plugins' cores: reads one job from stdin, prints one JSON line a mutant, {id, row}, `row` null
 * where no row tells it from the original; and first the outcomes of the originals, {originals: {guard: [...]}}.
 *
 * A job: {folder, plugins: {folder of a plugin: {file: source}}, mutants: [{id, file, sources: {plugin: source},
 * guards}], configs: {guard: [...]}, texts: [{tool, text, ignored}], replays: {guard: [[config, trace], ...]}}
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { player } from '../plugins/streams.mjs'
import { units } from './units.mjs'

const STEPS = 300_000
const CORES = { 'circuit-breaker': 'breaker', 'loop-guard': 'loop', 'compaction-breaker': 'refill' }

class Endless extends Error {}

let left = STEPS
// Stands in the condition of every loop.
globalThis.step = () => {
  left -= 1
  if (left < 0) throw new Endless('no end')
  return true
}

let chunks = ''
for await (const chunk of process.stdin) chunks += chunk
const job = JSON.parse(chunks)

/** The modules of all plugins, written to a folder of their own. */
async function load(name, sources) {
  const found = {}
  for (const [plugin, files] of Object.entries(sources)) {
    const folder = join(job.folder, name, plugin)
    mkdirSync(folder, { recursive: true })
    for (const [file, source] of Object.entries(files)) writeFileSync(join(folder, file), source)
  }
  for (const [plugin, files] of Object.entries(sources)) {
    const at = (file) => import(pathToFileURL(join(job.folder, name, plugin, file)).href)
    found[CORES[plugin]] = await at('core.js')
    if (files['keys.js'] !== undefined) found.keys ??= await at('keys.js')
  }
  return found
}

/** The rows that concern some guards, each a name and a function of the modules. */
function rows(guards, file) {
  const found = []
  for (const [of, checks] of Object.entries(units)) {
    if (guards.includes(of) || of === file) for (const check of checks) found.push([`unit ${check.name}`, check])
  }
  if (file === 'keys.js') {
    for (const { tool, text, ignored } of job.texts) {
      const value = JSON.parse(text)
      const names = new Set(ignored)
      found.push([
        `text ${text.slice(0, 60)}`,
        ({ keys }) => [keys.canonical(value), keys.canonical(value, names), keys.callKey(tool, value), keys.callKey(tool, value, names)],
      ])
    }
  }
  for (const guard of guards) {
    for (const given of job.configs[guard]) found.push([`config ${JSON.stringify(given)}`, (cores) => configured(cores, guard, given)])
    job.replays[guard].forEach(([config, trace], number) => {
      found.push([`replay ${number} of ${guard}`, (cores) => decided(cores, guard, config, trace)])
    })
  }
  return found
}

function configured(cores, guard, given) {
  try {
    return player(cores).configure(guard, given)
  } catch (error) {
    if (error instanceof Endless) throw error
    return error.message
  }
}

const decided = (cores, guard, config, trace) =>
  Array.from(player(cores).replay(trace, guard, config), ({ row, reason }) => ({ ...row, reason }))

const originals = await load('original', job.plugins)
const told = new Map()

/** What the originals give for the rows of some guards. */
function wanted(guards, file) {
  const name = JSON.stringify([guards, file === 'keys.js'])
  if (!told.has(name)) {
    told.set(name, rows(guards, file).map(([row, run]) => {
      left = STEPS
      return [row, run, run(originals)]
    }))
  }
  return told.get(name)
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
say({
  originals: Object.fromEntries(Object.keys(job.replays).map((guard) => [guard, {
    configs: job.configs[guard].map((given) => configured(originals, guard, given)),
    replays: job.replays[guard].map(([config, trace]) => decided(originals, guard, config, trace)),
  }])),
  texts: job.texts.map(({ text }) => [originals.keys.canonical(JSON.parse(text)), JSON.stringify(JSON.parse(text))]),
})

async function judge({ id, file, guards, sources }) {
  const judges = wanted(guards, file)
  let row = 'loading'
  try {
    const changed = Object.fromEntries(
      Object.entries(sources).map(([plugin, source]) => [plugin, { ...job.plugins[plugin], [file]: source }]),
    )
    const cores = { ...originals, ...(await load(`mutant-${id}`, changed)) }
    for (const [name, run, outcome] of judges) {
      row = name
      left = STEPS
      if (!isDeepStrictEqual(run(cores), outcome)) return row
    }
  } catch (error) {
    if (error instanceof SyntaxError && row === 'loading') return `no program: ${error.message}`
    return `${row}: ${error.constructor.name}`
  }
  return null
}

for (const mutant of job.mutants) say({ id: mutant.id, row: await judge(mutant) })
