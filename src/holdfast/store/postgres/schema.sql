-- The whole schema of the first version, as in sqlite/schema.sql; a test compares the two.
create table meta (name text primary key, value text not null);

create table session (
  n bigint primary key,
  id text not null unique,
  key text,
  agent text not null,
  cwd text,
  host text,
  title text,
  state text not null check (state in ('live', 'archived', 'deleted')),
  worktree text,
  archive text,
  deletion text,
  link text,
  undone text,
  metadata bytea not null,
  version bigint not null,
  created_at text not null collate "C",
  updated_at text not null collate "C",
  seq bigint not null,
  messages bigint not null,
  tasks bigint not null,
  seal text,
  search text not null
);
create unique index session_live_key on session (key) where state = 'live' and key is not null;
create index session_key on session (key) where key is not null;
create index session_recent on session (updated_at, n);

create table log (
  id bigint primary key,
  n bigint not null,
  seq bigint not null,
  kind text not null,
  at text not null,
  task text,
  replayed boolean not null,
  origin text,
  spool bigint,
  last boolean not null,
  body text not null
);
create unique index log_place on log (n, seq);
create index log_origin on log (n, md5(origin)) where origin is not null;

create table token (
  n bigint not null,
  pos bigint not null,
  agent text not null,
  native_id text not null,
  protocol text,
  seen_in text not null,
  at text not null,
  task text,
  status text not null check (status in ('current', 'superseded', 'revoked')),
  reason text,
  primary key (n, pos)
);
create index token_native on token (agent, native_id);

create table task (
  id text primary key,
  n bigint not null,
  place bigint not null,
  prompt text not null,
  status text not null,
  queued_at text not null,
  delivery text not null,
  options text not null,
  owner text,
  generation bigint not null,
  lease_until text,
  spool bigint not null,
  reason text,
  outcome text,
  retry_of text unique,
  started_at text,
  ended_at text,
  waiting_for text,
  not_before text
);
create index task_session on task (n, place);
create index task_status on task (status, place);

-- One row per hub: the last batch it committed, so that a commit whose answer was lost can be asked for.
create table writer (
  id text primary key,
  batch bigint not null,
  at timestamptz not null default now()
);

-- The outbox: messages for people, one row per channel.
create table notification (
  id text primary key,
  node text not null,
  channel text not null,
  kind text not null,
  session text not null,
  task text,
  body text not null,
  created_at text not null,
  due_at text not null,
  status text not null,
  tries bigint not null,
  problem text,
  ended_at text
);
create index notification_due on notification (node, status, due_at);
