// Recording what the person says, as a file of the message.

import { t } from "../lib/text.js";

const longest = 10 * 60 * 1000; // milliseconds
const types = ["audio/webm;codecs=opus", "audio/mp4", "audio/ogg;codecs=opus"];
const endings = { "audio/webm": "webm", "audio/mp4": "m4a", "audio/ogg": "ogg" };
const faults = { NotAllowedError: "chat.refused", NotFoundError: "chat.lacking" };

export class Recorder {
  // done(file) is called with each recording.
  constructor(button, done, trouble) {
    Object.assign(this, { button, done, trouble });
    button.addEventListener("click", () => (this.running ? this.running.stop() : this.start()));
  }

  async start() {
    if (!navigator.mediaDevices) return this.trouble(t("chat.unsafe")); // which a page has over https, and on the machine itself
    this.button.disabled = true;
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (error) {
      this.trouble(t(faults[error.name] ?? "chat.noMicrophone", { why: error.message }));
    }
    this.button.disabled = false;
    if (!stream) return;
    const mimeType = types.find((type) => MediaRecorder.isTypeSupported(type));
    const recorder = new MediaRecorder(stream, mimeType && { mimeType });
    const parts = [];
    const limit = setTimeout(() => recorder.stop(), longest);
    recorder.ondataavailable = (e) => {
      if (e.data.size) parts.push(e.data);
      const seconds = Math.round((performance.now() - begin) / 1000);
      if (this.running) this.button.textContent = Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
    };
    recorder.onstop = () => {
      clearTimeout(limit);
      for (const track of stream.getTracks()) track.stop(); // the browser shows the microphone as long as one is live
      this.show(null);
      const type = recorder.mimeType.split(";")[0];
      if (parts.length) this.done(new File(parts, t("chat.recording") + "." + (endings[type] ?? "audio"), { type }));
    };
    const begin = performance.now();
    recorder.start(1000);
    this.show(recorder);
  }

  show(recorder) {
    this.running = recorder;
    this.button.textContent = recorder ? "0:00" : "●";
    this.button.setAttribute("aria-pressed", String(Boolean(recorder)));
    this.button.setAttribute("aria-label", t(recorder ? "chat.stopRecording" : "chat.record"));
    this.button.title = t(recorder ? "chat.stopRecording" : "chat.record");
  }
}
