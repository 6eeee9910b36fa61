// The contract of a Flynn plugin on Node's own modules: gRPC over HTTP/2 on a unix socket, and the few protobuf messages
// that it needs. No package has to be installed. main.mjs holds what is yours; this file is the same for every plugin.

import http2 from 'node:http2'
import path from 'node:path'
import { randomBytes } from 'node:crypto'

const cookie = 'f1c0d5b26a4e4f7f8e0b7a5d9c3e2417'
const maxFrame = 1 << 20 // bytes, in both directions
const maxKeys = 4096 // sends that are remembered

// ---- protobuf: number, name and type of the fields that are used; what is not listed is ignored ----

const conversation = { 1: ['id', 'string'], 2: ['kind', 'int'], 3: ['parent', 'string'] }
const sender = { 1: ['id', 'string'], 2: ['name', 'string'], 3: ['account', 'string'], 4: ['isSelf', 'bool'], 5: ['isBot', 'bool'] }
const event = {
  1: ['seq', 'int'], 2: ['eventId', 'string'], 3: ['kind', 'int'], 4: ['conversation', conversation], 5: ['sender', sender],
  6: ['text', 'string'], 8: ['addressed', 'bool'], 9: ['replyTo', 'string'], 10: ['targetId', 'string'],
}
const capabilities = { 1: ['maxTextRunes', 'int'], 13: ['idempotent', 'bool'], 14: ['exclusive', 'bool'], 15: ['threads', 'bool'], 16: ['format', 'int'], 18: ['senders', 'int'], 19: ['shared', 'bool'] }
const types = {
  empty: {},
  health: { 1: ['status', 'int'] },
  describe: {
    1: ['name', 'string'], 2: ['version', 'string'], 3: ['protocols', 'int', 'list'], 4: ['kinds', 'int', 'list'], 6: ['channel', capabilities], 7: ['tools', {}],
  },
  configure: { 1: ['instance', 'string'], 2: ['settingsJson', 'bytes'], 3: ['secrets', { 1: ['key', 'string'], 2: ['value', 'string'] }, 'list'], 4: ['stateDir', 'string'] },
  configured: { 1: ['errors', { 1: ['path', 'string'], 2: ['message', 'string'] }, 'list'] },
  status: { 1: ['state', 'int'], 2: ['text', 'string'] },
  receive: { 1: ['open', { 1: ['streamId', 'string'], 2: ['window', 'int'] }], 2: ['ack', { 1: ['seq', 'int'], 2: ['rejected', { 1: ['seq', 'int'], 2: ['reason', 'string'] }, 'list'] }] },
  received: { 1: ['event', event] },
  send: { 1: ['key', 'string'], 2: ['conversation', conversation], 3: ['replyTo', 'string'], 4: ['text', 'string'] },
  sent: { 1: ['outcome', 'int'], 2: ['messageIds', 'string', 'list'], 5: ['detail', 'string'] },
  tools: {
    1: ['tools', { 1: ['name', 'string'], 2: ['description', 'string'], 3: ['inputSchemaJson', 'bytes'], 5: ['effect', 'int'], 6: ['idempotent', 'bool'] }, 'list'],
  },
  call: { 1: ['callId', 'string'], 2: ['key', 'string'], 3: ['tool', 'string'], 4: ['argumentsJson', 'bytes'] },
  called: { 4: ['result', { 1: ['text', 'string'], 2: ['isError', 'bool'], 3: ['structuredJson', 'bytes'] }] },
}

function varint (n) {
  const out = []
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128)
  out.push(Number(n))
  return Buffer.from(out)
}

function encode (message, fields) {
  const parts = []
  for (const [number, [name, type, list]] of Object.entries(fields)) {
    if (message[name] === undefined) continue
    for (const value of list ? message[name] : [message[name]]) {
      if (type === 'int' || type === 'bool') {
        parts.push(varint(number << 3), varint(Number(value)))
        continue
      }
      const bytes = type === 'string' || type === 'bytes' ? Buffer.from(value) : encode(value, type)
      parts.push(varint(number << 3 | 2), varint(bytes.length), bytes)
    }
  }
  return Buffer.concat(parts)
}

function decode (bytes, fields) {
  let at = 0
  const number = () => {
    let n = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= bytes.length) break
      const b = bytes[at++]
      n |= BigInt(b & 127) << shift
      if (b < 128) return n
    }
    throw new Refusal(3, 'a malformed message')
  }
  const take = n => {
    if (n > bytes.length - at) throw new Refusal(3, 'a malformed message')
    return bytes.subarray(at, at += n)
  }
  const out = {}
  while (at < bytes.length) {
    const tag = number()
    const wire = Number(tag & 7n)
    const raw = wire === 0 ? number() : take(wire === 1 ? 8 : wire === 5 ? 4 : wire === 2 ? Number(number()) : Infinity)
    const [name, type, list] = fields[Number(tag >> 3n)] ?? []
    const wanted = type === 'int' || type === 'bool' ? 0 : 2
    if (!name || wire !== wanted) continue
    const value = type === 'int' ? Number(raw) : type === 'bool' ? raw !== 0n : type === 'bytes' ? raw : type === 'string' ? raw.toString() : decode(raw, type)
    out[name] = list ? [...(out[name] ?? []), value] : value
  }
  return out
}

// ---- gRPC ----

/** Refusal ends a call with a gRPC status code. */
export class Refusal extends Error {
  constructor (code, message) { super(message); this.code = code }
}

/** frames reads the messages of one direction of a call. */
async function * frames (stream) {
  let buffer = Buffer.alloc(0)
  for await (const data of stream) {
    buffer = Buffer.concat([buffer, data])
    while (buffer.length >= 5) {
      const length = buffer.readUInt32BE(1)
      if (buffer[0] !== 0) throw new Refusal(12, 'compression is not spoken here')
      if (length > maxFrame) throw new Refusal(8, `a message of ${length} bytes, at most ${maxFrame}`)
      if (buffer.length < 5 + length) break
      yield buffer.subarray(5, 5 + length)
      buffer = buffer.subarray(5 + length)
    }
  }
}

/** answer serves one call: handler gets the decoded requests, reply(message), and a signal that fires when nobody waits any more. */
async function answer (stream, method) {
  let status = { 'grpc-status': '0' }
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers(status))
  stream.on('error', () => {}) // the host went away; the signal says so
  const over = new AbortController()
  stream.on('close', () => over.abort())
  const reply = message => {
    if (stream.destroyed) return
    const body = encode(message, method.out)
    const head = Buffer.alloc(5)
    head.writeUInt32BE(body.length, 1)
    stream.write(Buffer.concat([head, body]))
  }
  const requests = (async function * () { for await (const body of frames(stream.iterator({ destroyOnReturn: false }))) yield decode(body, method.in) })()
  try {
    if (!method.handler) throw new Refusal(12, 'there is no such method')
    await method.handler(requests, reply, over.signal)
  } catch (error) {
    if (!(error instanceof Refusal)) log('error', 'a call failed', { error: String(error.stack ?? error) })
    status = { 'grpc-status': String(error.code > 0 ? error.code : 13), 'grpc-message': encodeURIComponent(error.message) }
  }
  stream.resume() // what is not wanted any more
  if (!stream.destroyed) stream.end()
}

/** unary makes a handler of a function from one message to another. */
const unary = f => async (requests, reply, signal) => {
  const { value } = await requests.next()
  if (!value) throw new Refusal(3, 'there is no message')
  reply(await f(value, signal))
}

// ---- the plugin ----

/** log writes one line that the host understands. */
export function log (level, message, fields = {}) {
  process.stderr.write(JSON.stringify({ '@level': level, '@message': message, ...fields }) + '\n')
}

/** malformed says what is wrong with the identifiers of an event, or nothing. They are never mended: a mended one is somebody else's. */
function malformed (e) {
  const ids = [
    ['eventId', e.eventId, true], ['conversation.id', e.conversation?.id, true], ['conversation.parent', e.conversation?.parent],
    ['sender.id', e.sender?.id, true], ['sender.account', e.sender?.account], ['replyTo', e.replyTo], ['targetId', e.targetId],
  ]
  for (const [name, id = '', required] of ids) {
    if (id === '' && required) return `${name} is empty`
    if (Buffer.byteLength(id) > 256) return `${name} has ${Buffer.byteLength(id)} bytes, at most 256`
    if (/[\p{Cc}\p{Cs}]/u.test(id)) return `${name} has unprintable characters`
  }
}

/** Inbox takes events over to the host. */
class Inbox {
  pending = [] // not acked, in order
  next = 1
  window = 0
  stream = 0 // number of the latest
  state = { state: 1, text: '' }
  waiting = []

  wake () { for (const resolve of this.waiting.splice(0)) resolve() }
  change () { return new Promise(resolve => this.waiting.push(resolve)) }

  /** deliver returns when the host has the event on disk. It waits while the host is busy, and throws at an event that no host takes, with malformed = true. */
  async deliver (event) {
    const wrong = malformed(event)
    if (wrong) throw Object.assign(new Error(`malformed event: ${wrong}`), { malformed: true })
    while (this.pending.length >= this.window) await this.change()
    return new Promise((resolve, reject) => {
      const done = refused => refused
        ? reject(Object.assign(new Error(`malformed event: the host refused it: ${refused.reason ?? ''}`), { malformed: true }))
        : resolve()
      this.pending.push({ event: { kind: 1, ...event, seq: this.next++ }, done })
      this.wake()
    })
  }

  /** status tells people how the connection fares: 1 connecting, 2 ready, 3 degraded, 4 a credential is needed. */
  status (state, text = '') { this.state = { state, text }; this.wake() }

  async watch (requests, reply, signal) {
    signal.addEventListener('abort', () => this.wake())
    for (let last; !signal.aborted; await this.change()) {
      if (this.state !== last) reply(last = this.state)
    }
  }

  async receive (requests, reply, signal) {
    const { value: first } = await requests.next()
    if (!first?.open) throw new Refusal(3, 'the first frame has to be open')
    const number = ++this.stream
    this.window = Math.max(first.open.window ?? 0, 1)
    let sent = this.next - this.pending.length - 1
    let failed, over = false
    void (async () => {
      for await (const { ack } of requests) {
        if (!ack || number !== this.stream) continue // frames of other kinds are for versions to come
        if ((ack.seq ?? 0) > sent) throw new Refusal(3, `ack of ${ack.seq}, but the last event sent is ${sent}`)
        while (this.pending[0]?.event.seq <= ack.seq) {
          const { event, done } = this.pending.shift()
          done(ack.rejected?.find(r => r.seq === event.seq))
        }
        this.wake()
      }
    })().catch(error => { failed = error }).finally(() => { over = true; this.wake() })
    signal.addEventListener('abort', () => { over = true; this.wake() })
    this.wake()
    while (!over) {
      if (number !== this.stream) throw new Refusal(10, 'a newer stream has begun')
      for (const { event } of this.pending.slice(0, this.window)) {
        if (event.seq > sent) { sent = event.seq; reply({ event }) }
      }
      await this.change()
    }
    if (failed && !signal.aborted) throw failed
  }
}

/** Sends remembers what was sent by its key, so that a repeated one is sent once. */
class Sends {
  byKey = new Map()

  async once (message, send) {
    const before = this.byKey.get(message.key)
    if (message.key && before) {
      const sent = await before.catch(() => null)
      if (sent) return { ...sent, outcome: 2 }
    }
    const sending = Promise.resolve().then(() => send(message)).then(sent => ({ outcome: 1, ...sent }))
    this.byKey.set(message.key, sending)
    if (this.byKey.size > maxKeys) this.byKey.delete(this.byKey.keys().next().value)
    try {
      return await sending
    } catch (error) {
      this.byKey.delete(message.key)
      return { outcome: error.notSent ? 3 : 4, detail: error.message }
    }
  }
}

function settingsOf (request) {
  let settings
  try { settings = JSON.parse(request.settingsJson?.toString() || '{}') } catch (error) { throw new Refusal(3, `decode settings: ${error.message}`) }
  if (settings === null || typeof settings !== 'object' || Array.isArray(settings)) throw new Refusal(3, 'decode settings: want an object')
  return settings
}

/** methods are the calls that the host makes of plugin p, by path. */
function methods (p, inbox) {
  const sends = new Sends()
  let configured = false
  const ready = f => (...call) => {
    if (!configured) throw new Refusal(9, 'not configured')
    return f(...call)
  }
  const configure = async request => {
    if (configured) throw new Refusal(9, 'configured already')
    const settings = settingsOf(request)
    const secrets = Object.fromEntries((request.secrets ?? []).map(s => [s.key, s.value]))
    const errors = await p.configure(settings, secrets, request) ?? []
    if (errors.length === 0) {
      configured = true
      if (p.run) Promise.resolve(p.run(inbox)).catch(error => { log('error', 'plugin failed', { error: String(error.stack) }); process.exit(1) })
    }
    return { errors }
  }
  const all = {
    '/grpc.health.v1.Health/Check': [types.empty, types.health, unary(() => ({ status: 1 }))],
    '/plugin.GRPCController/Shutdown': [types.empty, types.empty, unary(() => { soon(); return {} })],
    '/flynn.plugin.v1.Plugin/Describe': [types.empty, types.describe, unary(() => ({
      name: p.name, version: p.version, protocols: [1], kinds: [...(p.send ? [1] : []), ...(p.tools ? [2] : [])],
      ...(p.send && { channel: { format: 1, ...p.capabilities } }), ...(p.tools && { tools: {} }),
    }))],
    '/flynn.plugin.v1.Plugin/Configure': [types.configure, types.configured, unary(configure)],
    '/flynn.plugin.v1.Plugin/Status': [types.empty, types.status, (...call) => inbox.watch(...call)],
    '/flynn.plugin.v1.Plugin/Shutdown': [types.empty, types.empty, unary(async () => { await p.close?.(); soon(); return {} })],
  }
  if (p.send) {
    all['/flynn.channel.v1.Channel/Receive'] = [types.receive, types.received, ready((...call) => inbox.receive(...call))]
    all['/flynn.channel.v1.Channel/Send'] = [types.send, types.sent, unary(ready(message => sends.once(message, p.send)))]
  }
  if (p.tools) {
    all['/flynn.tool.v1.Tools/List'] = [types.empty, types.tools, unary(ready(() => ({
      tools: p.tools.map(t => ({ ...t, inputSchemaJson: JSON.stringify(t.schema) })),
    })))]
    all['/flynn.tool.v1.Tools/Call'] = [types.call, types.called, unary(ready(async (call, signal) => ({ result: await run(p, call, signal) })))]
  }
  return Object.fromEntries(Object.entries(all).map(([name, [incoming, outgoing, handler]]) => [name, { in: incoming, out: outgoing, handler }]))
}

/** run runs one tool. A failure of the tool is a result. */
async function run (p, call, signal) {
  const tool = p.tools.find(t => t.name === call.tool)
  if (!tool) throw new Refusal(3, `there is no tool ${call.tool}`)
  let args
  try { args = JSON.parse(call.argumentsJson?.toString() || '{}') } catch { throw new Refusal(3, 'the arguments are not JSON') }
  try {
    return { text: String(await tool.call(args, signal)) }
  } catch (error) {
    return { text: error.message, isError: true }
  }
}

/** soon ends the process when the answer has left. */
const soon = () => setTimeout(() => process.exit(0), 20)

/** serve runs plugin p. It returns at once; the process ends when the host asks for it or is gone. */
export function serve (p) {
  if (process.env.FLYNN_PLUGIN !== cookie) {
    process.stderr.write(`${p.name} ${p.version} is a Flynn plugin; the host starts it.\nInstall it with: flynn plugin install DIR\n`)
    process.exit(2)
  }
  console.log = console.info = console.debug = (...args) => log('debug', args.join(' ')) // standard output belongs to the handshake
  const table = methods(p, new Inbox())
  const none = { in: {}, out: {} }
  const server = http2.createServer()
  server.on('stream', (stream, headers) => answer(stream, table[headers[':path']] ?? none))
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR, 'plugin' + randomBytes(5).toString('hex'))
  server.listen(socket, () => process.stdout.write(`1|1|unix|${socket}|grpc|\n`))
  process.stdin.on('end', () => process.exit(1)).resume() // the host is gone
}
