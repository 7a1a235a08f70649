// What the programs of the peers on Node share: see bench/peers/kit.py, whose files they write.
const fs = require("fs");
const path = require("path");

const FOLDER = process.env.BENCH_FOLDER || ".";
const TICKS = path.join(FOLDER, "ticks");
const FLUSH_MS = 5;

// The system's monotonic clock, as Python's time.monotonic() reads it.
const now = () => Number(process.hrtime.bigint()) / 1e9;
const answer = (facts) => console.log(JSON.stringify(facts));

class Ticks {
  constructor() {
    fs.mkdirSync(TICKS, { recursive: true });
    this.file = fs.openSync(path.join(TICKS, String(process.pid)), "w");
    this.count = 0;
    setInterval(() => this.flush(), FLUSH_MS);
  }

  tick() {
    this.last = now();
    if (this.count++ === 0) this.first = this.last;
  }

  flush() {
    if (this.count === 0) return;
    const record = Buffer.alloc(24);
    record.writeBigInt64LE(BigInt(this.count), 0);
    record.writeDoubleLE(this.first, 8);
    record.writeDoubleLE(this.last, 16);
    fs.writeSync(this.file, record, 0, 24, 0);
  }
}

function started(number) {
  fs.appendFileSync(path.join(FOLDER, "starts"), `${number} ${now()}\n`);
}

function counted() {
  let found = 0;
  for (const name of fs.existsSync(TICKS) ? fs.readdirSync(TICKS) : []) {
    const record = fs.readFileSync(path.join(TICKS, name));
    if (record.length === 24) found += Number(record.readBigInt64LE(0));
  }
  return found;
}

async function timed(work) {
  const began = now();
  await work();
  answer({ seconds: now() - began });
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function oneByOne(number, send) {
  const sent = [];
  for (let n = 0; n < number; n++) {
    const began = now();
    await send(n);
    sent.push([n, began, now()]);
    await pause(20);
  }
  answer({ sent });
}

async function keepAhead(ahead, put) {
  for (let made = 0; ; ) {
    if (made - counted() >= ahead) {
      await pause(5);
      continue;
    }
    await put(1000);
    made += 1000;
  }
}

module.exports = { Ticks, started, timed, oneByOne, keepAhead };
