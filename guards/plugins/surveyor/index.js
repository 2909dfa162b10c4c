/**
 * Looks at plugins that lie beside this one in a profile, writes what it saw and ends the process. Nothing is mounted.
 *
 * Config: `packages`, their names, and `out`, the path of a JSON file: {harness, plugins: [{unmet, denied, imports,
 * error, applies, engine}]}. `unmet` are the declared ranges of harness versions that this one is outside of, by the
 * harness' own rule; `denied` says why the harness could not judge them, else null. `imports` are [specifier, error]
 * of each bare import, error null where it resolves. `error` is what loading threw, else null. `applies`: the harness
 * could mount what is exported. `engine`: it is a compaction engine.
 */
import { createRequire, registerHooks } from 'node:module'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { evaluatePluginCompatibility, getDshRuntimeVersion } from '@deepseek-ai/dsh-app-boot'

export const name = 'tripbench-surveyor'

const RESOLVER = '.tripbench-resolver.mjs'
const STUB = 'data:text/javascript,export default undefined'

export async function apply(_ctx, { out, packages }) {
  const plugins = []
  for (const each of packages) plugins.push(await survey(each))
  writeFileSync(`${out}.draft`, JSON.stringify({ harness: getDshRuntimeVersion(), plugins }))
  renameSync(`${out}.draft`, out)
  process.exit(0)
}

async function survey(name) {
  const folder = packageFolder(name)
  const { resolved, failed, exports, thrown } = await load(name, folder)
  const imports = [...resolved].map((each) => [each, null]).concat(await resolveAll(folder, failed))
  const plugin = unwrap(exports)
  return {
    ...requirements(folder),
    imports,
    // With a stub in place of what is missing, what loading threw says nothing.
    error: failed.size > 0 || thrown === undefined ? null : thrown,
    applies: typeof plugin === 'function' || typeof plugin?.apply === 'function',
    engine: typeof plugin === 'function' && typeof plugin.prototype?.compactIfNeeded === 'function',
  }
}

/** Beside this package; a scope is one folder more. */
function packageFolder(name) {
  return join(dirname(dirname(fileURLToPath(import.meta.url))), name)
}

/** Imports a package with a stub in place of each bare import that does not resolve, so that all of them are seen. */
async function load(name, folder) {
  const own = pathToFileURL(folder).href + '/'
  const resolved = new Set()
  const failed = new Set()
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      // The harness asks for a profile's bare imports with a package.json as the parent.
      const { parentURL = '' } = context
      const bare = !/^(\.{0,2}\/|node:|file:|data:)/.test(specifier) && specifier !== name
      if (!bare || !(parentURL.startsWith(own) || parentURL.endsWith('/package.json'))) return next(specifier, context)
      try {
        const found = next(specifier, context)
        resolved.add(specifier)
        return found
      } catch {
        failed.add(specifier)
        return { url: STUB, format: 'module', shortCircuit: true }
      }
    },
  })
  try {
    return { resolved, failed, exports: await import(name) }
  } catch (error) {
    return { resolved, failed, thrown: String(error?.message ?? error) }
  } finally {
    hooks.deregister()
  }
}

/** Each specifier as a file of the plugin's own would ask for it. */
async function resolveAll(folder, specifiers) {
  const path = join(folder, RESOLVER)
  writeFileSync(path, 'export const resolve = (specifier) => import.meta.resolve(specifier)\n')
  const { resolve } = await import(pathToFileURL(path).href)
  const require = createRequire(path)
  return [...specifiers].map((specifier) => {
    try {
      resolve(specifier)
      return [specifier, null]
    } catch (error) {
      try {
        require.resolve(specifier)
        return [specifier, null]
      } catch {
        return [specifier, error.message.split('\n')[0].replace(/ (in|imported from) (\/|[A-Z]:).*$/, '')]
      }
    }
  })
}

function requirements(folder) {
  try {
    const issue = evaluatePluginCompatibility(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')))
    return { unmet: issue?.requirements ?? {}, denied: null }
  } catch (error) {
    return { unmet: {}, denied: String(error.message) }
  }
}

/** What the harness takes of a module. */
function unwrap(exports) {
  const first = exports?.default ?? exports
  return first?.__esModule ? (first.default ?? first) : first
}
