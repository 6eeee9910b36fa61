// {%.Name%} is a channel plugin: it says something once in a while and hears the answer. Put your platform here.
import { log, serve } from './flynn.mjs'

const known = ['text', 'every_seconds']
let settings

serve({
  name: '{%.Name%}',
  version: '0.1.0',
  // What the platform proves about a sender: 1 proved, 2 claimed, 3 none. plugin.toml says the same. Others than proved are guests at most.
  capabilities: { senders: 3 },

  // configure returns what is wrong with the settings: a list of { path, message }.
  configure (given) {
    settings = { text: 'hello', every_seconds: 60, ...given }
    const errors = Object.keys(given).filter(key => !known.includes(key)).map(path => ({ path, message: 'unknown key' }))
    if (typeof settings.text !== 'string') errors.push({ path: 'text', message: 'want a string' })
    if (!(settings.every_seconds >= 1)) errors.push({ path: 'every_seconds', message: 'must be at least 1' })
    return errors
  },

  // run connects and delivers events for as long as the process lives. deliver returns when the host has the event on disk:
  // acknowledge it to your platform only then.
  async run (inbox) {
    inbox.status(2, 'talking to itself')
    for (;;) {
      try {
        await inbox.deliver({
          eventId: String(process.hrtime.bigint()), text: settings.text, conversation: { id: 'echo', kind: 1 }, sender: { id: 'echo' },
        })
      } catch (error) {
        if (!error.malformed) throw error
        log('warn', 'event was refused', { error: error.message }) // no host ever takes it: do not send it again
      }
      await new Promise(resolve => setTimeout(resolve, settings.every_seconds * 1000))
    }
  },

  // send delivers one message and returns the platform's ids of it. Throw an error with notSent = true when it surely was not sent.
  async send (message) {
    log('info', 'heard', { text: message.text })
    return { messageIds: [message.key] }
  },
})
