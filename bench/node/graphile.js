// graphile-worker, with a local queue and batched completion, as its documentation recommends for throughput.
// graphile.js VERB URL [N]
const { run, runMigrations, makeWorkerUtils, Logger } = require("graphile-worker");
const { Pool } = require("pg");
const { Ticks, started, timed, oneByOne, keepAhead } = require("./kit.js");

const CHUNK = 10000;
const [verb, url, number] = process.argv.slice(2);
const logger = new Logger(() => () => {});

async function work() {
  const ticks = new Ticks();
  const preset = {
    worker: {
      connectionString: url,
      maxPoolSize: 10,
      pollInterval: 2000,
      concurrentJobs: 24,
      localQueue: { size: 500, ttl: 300000 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
  const taskList = { noop: () => ticks.tick(), tell: (payload) => started(payload.n) };
  const runner = await run({ preset, logger, noHandleSignals: true, taskList });
  process.on("SIGTERM", () => process.exit(0));
  await runner.promise;
}

async function enqueue(n) {
  const pool = new Pool({ connectionString: url, max: 5 });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  const many = (rows) => utils.addJobs(Array.from({ length: rows }, () => ({ identifier: "noop", payload: {} })));
  const verbs = {
    single: () =>
      timed(async () => {
        for (let i = 0; i < n; i++) await utils.addJob("noop", {});
      }),
    bulk: () =>
      timed(async () => {
        for (let left = n; left > 0; left -= CHUNK) await many(Math.min(left, CHUNK));
      }),
    feed: () => keepAhead(n, many),
    send: () => oneByOne(n, (i) => utils.addJob("tell", { n: i })),
    load: async () => {
      const jobs = "graphile_worker._private_jobs";
      await utils.addJob("noop", {});
      await pool.query(
        `INSERT INTO ${jobs} (task_id, payload) SELECT task_id, payload FROM ${jobs}, generate_series(1, $1::int)`,
        [n - 1],
      );
    },
  };
  await verbs[verb]();
  await utils.release();
  await pool.end();
}

async function main() {
  if (verb === "setup") return runMigrations({ connectionString: url });
  return verb === "work" ? work() : enqueue(Number(number));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
