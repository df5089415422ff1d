// Made by `make web-types` from src/agenttrace/serve/api/shapes/ and views/; not to be edited.

/** The states of a cached result. */
export type CacheStatus = "valid" | "expired" | "invalidated" | "generating";

/** Whether a circuit breaker lets calls through. */
export type CircuitState = "closed" | "open" | "half_open";

/** The states of a job. */
export type JobStatus = "pending" | "running" | "completed" | "failed" | "skipped_duplicate" | "budget_exceeded" | "cancelled";

/** The states of a call in the run log. */
export type RunStatus = "pending" | "running" | "success" | "failed" | "timeout" | "budget_exceeded" | "circuit_open" | "rate_limited";

/** The states of a step of a job: that of its last call, or why there is none. */
export type StepStatus = "pending" | "running" | "success" | "failed" | "timeout" | "budget_exceeded" | "circuit_open" | "rate_limited" | "waiting" | "skipped";

/** Tokens and cost of something, each response counted once. */
export interface Bill {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  requests: number;
  cost: number | null;
  currency: string | null;
  costs: Record<string, number>;
  unpriced_tokens: number;
  unpriced_models: string[];
  estimated_requests: number;
  folded_copies: number;
}

/** The bill of one model, agent, project or day. */
export interface NamedBill {
  name: string;
  bill: Bill;
}

/** Enough of a session to link to it. */
export interface SessionRef {
  key: string;
  session_id: string;
  agent: string;
  title: string | null;
  project: string | null;
}

/** What is beside a session, as lists show it. */
export interface SessionMarks {
  starred: boolean;
  labels: string[];
  scores: Record<string, number>;
  notes: number;
  revision: number;
}

/** What came of a session, in figures; of tests, those of the last run with a summary. */
export interface OutcomeFigures {
  files: number;
  added: number | null;
  removed: number | null;
  commits: number;
  pull_requests: number;
  test_runs: number;
  tests_passed: number | null;
  tests_failed: number | null;
}

/** A session in a list. */
export interface SessionRow extends SessionRef {
  state: "working" | "waiting" | "ended" | "interrupted";
  started_at: string | null;
  last_at: string | null;
  turns: number;
  steps: number;
  tools: number;
  errors: number;
  events: number;
  branch: string | null;
  machine: string | null;
  person: string | null;
  model: string | null;
  models: string[];
  version: string | null;
  parent: string | null;
  demo: boolean;
  bill: Bill;
  outcomes: OutcomeFigures | null;
  marks: SessionMarks;
}

/** A page of sessions. */
export interface SessionList {
  items: SessionRow[];
  next: string | null;
  total: number;
  cursor: number;
  since: string | null;
  until: string | null;
}

/** One value of a filter, and how many sessions have it. */
export interface Facet {
  value: string;
  count: number;
}

/** What can be filtered by. */
export interface SessionFacets {
  agents: Facet[];
  projects: Facet[];
  models: Facet[];
  states: Facet[];
  labels: Facet[];
  scores: Facet[];
  machines: Facet[];
  persons: Facet[];
}

/** A log file that a session was read from. */
export interface SourceFile {
  path: string;
  offset: number;
  size: number | null;
  gone: boolean;
}

/** Why figures differ, or what the agent's total leaves out: ``number`` requests or lines, of the agent ``name``. */
export interface CheckReason {
  kind: "killed" | "copied" | "missing" | "placeholder" | "unread" | "unknown";
  number: number;
  name: string;
}

/** Our count of a session against its agent's own totals. */
export interface UsageCheck {
  status: "agree" | "differ" | "nothing";
  checked: number;
  claimed: Record<string, number>;
  counted: Record<string, number>;
  unlogged: Record<string, number>;
  difference: Record<string, number>;
  reasons: CheckReason[];
}

/** How to go on with a session in its agent. */
export interface ResumeHint {
  command: string;
  limit: "latest_only" | "copy" | "whole_history" | null;
  directory_gone: boolean;
}

/** A session with its bills, parent, forks and files. */
export interface SessionDetail extends SessionRow {
  by_model: NamedBill[];
  check: UsageCheck;
  parent_session: SessionRef | null;
  forks: SessionRef[];
  files: SourceFile[];
  job_id: number | null;
  resume: ResumeHint | null;
  cursor: number;
}

/** A note, score, label or star beside a session. */
export interface Annotation {
  id: string;
  session: string;
  span_id: string | null;
  kind: "note" | "score" | "label" | "star";
  name: string | null;
  value: number | null;
  text: string | null;
  source: "person" | "program" | "rule";
  author: string;
  created_at: string;
  changed_at: string;
}

/** All annotations of a session, the oldest first. */
export interface AnnotationList {
  items: Annotation[];
}

/** A file that the session changed. */
export interface ChangedFile {
  path: string;
  changes: number;
  added: number | null;
  removed: number | null;
  known_from: ("tool call" | "command output" | "log" | "repository")[];
  lines_kept: number | null;
  lines_compared: number | null;
}

/** A commit of the session. */
export interface SessionCommit {
  hash: string;
  subject: string;
  at: string | null;
  known_from: ("tool call" | "command output" | "log" | "repository")[];
  kept: boolean | null;
  kept_as: string | null;
  branches: string[];
}

/** A pull request of the session. */
export interface SessionPullRequest {
  url: string;
  at: string | null;
  known_from: ("tool call" | "command output" | "log" | "repository")[];
}

/** A run of tests. */
export interface SessionTests {
  command: string;
  runner: string;
  passed: number | null;
  failed: number | null;
  summary: string | null;
  at: string | null;
  known_from: ("tool call" | "command output" | "log" | "repository")[];
}

/** What came of a session. */
export interface SessionOutcomes {
  session_id: string;
  agent: string;
  project: string | null;
  files: ChangedFile[];
  added: number | null;
  removed: number | null;
  commits: SessionCommit[];
  pull_requests: SessionPullRequest[];
  tests: SessionTests[];
  repository: boolean;
}

/** One change of a file. */
export interface FileEdit {
  number: number;
  at: string | null;
  span_id: string | null;
  added: number | null;
  removed: number | null;
  known_from: "tool call" | "command output" | "log" | "repository";
  diff: string;
  numbered: boolean;
  created: boolean;
  deleted: boolean;
  cut: boolean;
}

/** A file with its edits, in order. */
export interface FileEdits {
  path: string;
  full_path: string;
  added: number | null;
  removed: number | null;
  edits: FileEdit[];
}

/** Every file that a session changed. */
export interface SessionChanges {
  session_id: string;
  agent: string;
  project: string | null;
  files: FileEdits[];
  added: number | null;
  removed: number | null;
  edits: number;
}

/** What is shared of a session. */
export interface ShareOptions {
  format: "html" | "md" | "jsonl";
  secrets: boolean;
  hide_paths: boolean;
  tools: boolean;
}

/** How often something of a kind is masked. */
export interface MaskedKind {
  kind: string;
  count: number;
}

/** A masked place with the text around it. */
export interface MaskedExcerpt {
  kind: string;
  where: string;
  span_id: string | null;
  before: string;
  after: string;
}

/** What a shared file would be: its name and size, and what is masked in it. */
export interface SharePreview {
  name: string;
  bytes: number;
  masked: number;
  kinds: MaskedKind[];
  places: MaskedExcerpt[];
}

/** Tokens by kind, and their cost. */
export interface Spent {
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  requests: number;
  costs: Record<string, number>;
  unpriced_tokens: number;
}

/** The calls of a tool. */
export interface ToolFigures {
  calls: number;
  failed: number;
  duration_ms: number;
}

/** What a session changed in a file. */
export interface FileFigures {
  changes: number;
  added: number | null;
  removed: number | null;
}

/** A turn with everything in it. */
export interface TurnFigures {
  span_id: string;
  start_ms: number;
  duration_ms: number | null;
  steps: number;
  tools: number;
  failed: number;
  tokens: number;
  costs: Record<string, number>;
  unpriced_tokens: number;
}

/** A tool in both sessions. */
export interface ToolComparison {
  name: string;
  a: ToolFigures;
  b: ToolFigures;
}

/** A changed file; null where a session did not change it. */
export interface FileComparison {
  path: string;
  a: FileFigures | null;
  b: FileFigures | null;
}

/** A model in both sessions. */
export interface ModelComparison {
  model: string;
  a: Spent;
  b: Spent;
}

/** The turns of the same number; null where a session has fewer. */
export interface TurnComparison {
  number: number;
  a: TurnFigures | null;
  b: TurnFigures | null;
}

/** One of the two sessions. */
export interface ComparedSession {
  key: string;
  session_id: string;
  agent: string;
  title: string | null;
  project: string | null;
  branch: string | null;
  state: string;
  started_at: string | null;
  last_at: string | null;
  duration_ms: number | null;
  active_ms: number;
  turns: number;
  steps: number;
  tools: number;
  errors: number;
  spent: Spent;
  files: number;
  added: number | null;
  removed: number | null;
  commits: number;
}

/** Two sessions side by side. */
export interface Comparison {
  a: ComparedSession;
  b: ComparedSession;
  turns: TurnComparison[];
  tools: ToolComparison[];
  files: FileComparison[];
  models: ModelComparison[];
}

/** All spans of a session, or those that changed since a cursor, by column, which keeps 30,000 rows small. */
export interface Timeline {
  session: string;
  cursor: number;
  complete: boolean;
  next: string | null;
  streams: string[];
  span_id: string[];
  parent_id: (string | null)[];
  kind: ("turn" | "step" | "tool" | "span")[];
  name: string[];
  start: number[];
  end: (number | null)[];
  status: ("open" | "ok" | "error" | "cancelled" | "unclosed")[];
  model: (string | null)[];
  stream: number[];
  turn: number[];
  step: number[];
  input: (number | null)[];
  cached: (number | null)[];
  output: (number | null)[];
  cost: (number | null)[];
  currency: (string | null)[];
  counted: boolean[];
  estimated: boolean[];
}

/** A picture, a video or a sound in a recorded line. */
export interface MediaInfo {
  media_type: string;
  bytes: number | null;
  place: string | null;
  problem: "elsewhere" | "too_large" | "unsafe" | "unknown_type" | "damaged" | "no_picture" | null;
  url: string | null;
}

/** A text of a span, cut where it is long. */
export interface TextPiece {
  kind: "prompt" | "text" | "thinking" | "arguments" | "result" | "error" | "note" | "media";
  text: string;
  chars: number;
  index: number;
  call: string | null;
  media: MediaInfo | null;
}

/** The texts of some spans by span. */
export interface Texts {
  spans: Record<string, TextPiece[]>;
}

/** Some characters of a long text. */
export interface TextPart {
  text: string;
  start: number;
  chars: number;
}

/** A recorded line, its file and its offset. */
export interface LineRef {
  event_no: number;
  type: string;
  at: string | null;
  file: string;
  offset: number;
  length: number;
}

/** The price of a million tokens of a model, as applied to this call, and its source. */
export interface PriceInfo {
  model: string;
  currency: string;
  input: number;
  output: number;
  cache_read: number | null;
  cache_write: number | null;
  cache_write_1h: number | null;
  web_search: number | null;
  since: string;
  terms: string[];
  above: number | null;
  source: string;
  checked: string;
}

/** One span with everything but its long texts. */
export interface SpanDetail {
  session: SessionRef;
  trace_id: string;
  span_id: string;
  parent_id: string | null;
  kind: "turn" | "step" | "tool" | "span";
  name: string;
  start: string;
  end: string | null;
  status: "open" | "ok" | "error" | "cancelled" | "unclosed";
  model: string | null;
  stream: string;
  turn_index: number;
  step_n: number;
  usage: Record<string, number> | null;
  counted: boolean;
  estimated: boolean;
  cost: number | null;
  currency: string | null;
  price: PriceInfo | null;
  attributes: Record<string, unknown>;
  texts: TextPiece[];
  lines: LineRef[];
}

/** A page of spans, each as ``agenttrace show --json`` prints it. */
export interface SpanList {
  items: Record<string, unknown>[];
  next: string | null;
}

/** What is not as it was in the model call before. */
export interface RequestChange {
  kind: "system" | "tools" | "messages" | "parameters" | "model" | "compaction" | "shorter" | "pause";
  known_from: "request" | "conversation" | "usage";
  before: string | null;
  after: string | null;
  added: string[];
  removed: string[];
  changed: string[];
  dropped_messages: number | null;
  dropped_characters: Record<string, number>;
  first_message: number | null;
  pause_seconds: number | null;
}

/** A model call and the context that it was sent. */
export interface RequestRow {
  call: number;
  at: string | null;
  stream: string;
  span_id: string | null;
  model: string | null;
  purpose: string | null;
  known_from: "request" | "conversation" | "usage";
  parts: Record<string, number>;
  unknown_parts: string[];
  characters: number;
  messages: number | null;
  messages_not_in_log: number;
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  output_tokens: number | null;
  cache_lost_tokens: number;
  causes: ("system" | "tools" | "messages" | "parameters" | "model" | "compaction" | "shorter" | "pause")[];
  changes: RequestChange[];
}

/** From which model call on a tool was offered, and from which on it was not any more. */
export interface OfferedTool {
  name: string;
  stream: string;
  characters: number;
  initial: boolean;
  came: number;
  went: number | null;
}

/** A page of the model calls of a session, with figures and tools of all of them. */
export interface RequestList extends SessionRequests {
  next: string | null;
}

/** A recorded line of a session, cut where it is long. */
export interface SessionLine {
  number: number;
  event_no: number;
  type: string;
  at: string | null;
  span_id: string | null;
  file: string;
  offset: number;
  length: number;
  raw: string;
  cut: boolean;
}

/** Some lines of a session, in the order of recording. */
export interface SessionLines {
  total: number;
  items: SessionLine[];
  next: string | null;
}

/** A recorded line whole, up to a limit. */
export interface EventDetail {
  event_no: number;
  at: string | null;
  session: SessionRef;
  type: string;
  turn_index: number;
  step_n: number;
  span_id: string | null;
  span: string | null;
  file: string;
  offset: number;
  length: number;
  raw: string;
  cut: boolean;
}

/** Model calls of a session, with figures and tools of all of them. */
export interface SessionRequests {
  calls: number;
  cache_breaks: number;
  cache_lost_tokens: number;
  compactions: number;
  items: RequestRow[];
  tools: OfferedTool[];
}

/** A part of a snippet. */
export interface Piece {
  text: string;
  hit: boolean;
}

/** An annotation or an event whose text matches. */
export interface SearchHit {
  event_no: number;
  annotation_id: string | null;
  at: string | null;
  session: SessionRef;
  span_id: string | null;
  span: string | null;
  kind: string;
  snippet: Piece[];
}

/** A page of hits: annotations, the latest first, and then events, the latest recorded first. */
export interface SearchList {
  items: SearchHit[];
  next: string | null;
  backlog: number;
}

/** Commits and changed lines of a group of usage, and what a commit cost. */
export interface UsageOutcomes {
  commits: number;
  added: number | null;
  removed: number | null;
  cost_per_commit: Record<string, number>;
  known_from: ("tool call" | "command output" | "log")[];
}

/** One row: a day, a month, a model, an agent, a project, a session, a machine or a person. */
export interface UsageGroup {
  group: string | null;
  title: string | null;
  key: string | null;
  bill: Bill;
  parts: NamedBill[];
  outcomes: UsageOutcomes;
}

/** Usage by group. */
export interface UsageAnswer {
  by: string;
  split: string | null;
  timezone: string;
  total: Bill;
  rows: UsageGroup[];
  total_outcomes: UsageOutcomes;
  not_examined: number;
}

/** How far a budget for agents is used, in its period or in one session. */
export interface AgentBudget {
  name: string;
  period: "day" | "week" | "month" | "session";
  agents: string[];
  projects: string[];
  models: string[];
  machines: string[];
  persons: string[];
  start: string | null;
  end: string | null;
  session: string | null;
  session_key: string | null;
  session_title: string | null;
  unit: "money" | "tokens";
  currency: string | null;
  limit: number;
  spent: number | null;
  share: number | null;
  warn: number[];
  crossed: number[];
  amounts: Record<string, number>;
  tokens: number;
  unpriced_tokens: number;
  unpriced_models: string[];
  rate: number | null;
  recent_rate: number | null;
  forecast: number | null;
  reached_at: string | null;
  problem: string | null;
}

/** A window of a provider's own limit. */
export interface ProviderWindow {
  agent: string;
  name: string;
  minutes: number | null;
  start: string | null;
  resets_at: string;
  expired: boolean;
  source: "log" | "statusline" | "estimated";
  at: string;
  plan: string | null;
  share: number | null;
  rate: number | null;
  exhausted_at: string | null;
  requests: number | null;
  tokens: number | null;
  costs: Record<string, number> | null;
}

/** Budgets for agents, and the windows of providers' limits. */
export interface AgentLimits {
  timezone: string;
  recent_hours: number;
  budgets: AgentBudget[];
  sessions_left_out: number;
  windows: ProviderWindow[];
}

/** The calls of one tool; durations are null where no log has them. */
export interface ToolInsight {
  tool: string;
  part: string | null;
  calls: number;
  failures: number;
  failure_rate: number;
  cancelled: number;
  sessions: number;
  last_at: string | null;
  timed: number;
  p50_ms: number | null;
  p95_ms: number | null;
  max_ms: number | null;
  total_ms: number | null;
}

/** The tools that were called. */
export interface ToolInsights {
  by: "agent" | "project" | "model" | "machine" | "person" | null;
  calls: number;
  failures: number;
  items: ToolInsight[];
  left_out: number;
}

/** The calls of one model; what no log tells is null, not 0. */
export interface ModelInsight {
  model: string;
  part: string | null;
  calls: number;
  errors: number;
  error_rate: number;
  sessions: number;
  turns: number;
  last_at: string | null;
  timed: number;
  p50_ms: number | null;
  p95_ms: number | null;
  max_ms: number | null;
  output_tokens_per_second: number | null;
  cache_hit_rate: number | null;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  cost: number | null;
  currency: string | null;
  costs: Record<string, number>;
  cost_per_turn: Record<string, number>;
  unpriced_tokens: number;
}

/** The models that were called. */
export interface ModelInsights {
  by: "agent" | "project" | "machine" | "person" | null;
  calls: number;
  errors: number;
  items: ModelInsight[];
  left_out: number;
}

/** A span and its session: a link. */
export interface InsightSpan {
  session: string;
  session_id: string;
  agent: string;
  title: string | null;
  project: string | null;
  span_id: string | null;
  at: string | null;
  turn: number;
  duration_ms: number | null;
  status: string | null;
  error: string | null;
}

/** Calls of a tool or of a model: the latest failures, and the longest. */
export interface InsightCalls {
  failed: InsightSpan[];
  slow: InsightSpan[];
}

/** Something that stands out, how much it cost, and where it is. */
export interface Finding {
  kind: "retry_loop" | "repeated_failure" | "cache_break" | "expensive_turn" | "long_wait";
  text: string;
  tool: string | null;
  model: string | null;
  error: string | null;
  arguments: string | null;
  count: number;
  sessions: number;
  turn: number | null;
  tokens: number | null;
  costs: Record<string, number>;
  duration_ms: number | null;
  pause_ms: number | null;
  first_at: string | null;
  last_at: string | null;
  spans: InsightSpan[];
}

/** What stands out, by kind; in each, what cost most first. */
export interface Findings {
  items: Finding[];
}

/** Every line that was read is one of these. */
export interface LineCounts {
  lines: number;
  recorded: number;
  duplicate: number;
  ignored: number;
  quarantined: number;
}

/** How often a tier of the deduplicator knew an event. */
export interface DedupTier {
  tier: "l0" | "l1" | "l2";
  hits: number;
  rate: number;
}

/** Whether agents are recorded, without what takes a look at every log file. */
export interface RecorderState {
  running: boolean;
  pid: number | null;
  problem: string | null;
  restarts: number;
  lines: LineCounts;
  quarantine_open: number;
}

/** The state of recording. */
export interface RecordingState extends RecorderState {
  file_count: number;
  read_bytes: number;
  behind_bytes: number;
  behind_files: number;
  lost_bytes: number;
  dedup: DedupTier[];
  new_events: number;
  counted_only: number;
  unreadable: number;
  links_not_followed: number;
  search_backlog: number;
  database_bytes: number;
}

/** A log file. */
export interface FileRow {
  path: string;
  offset: number;
  size: number | null;
  behind: number;
  lines: number;
  quarantined: number;
  counted_only: number;
  generation: number;
  lost_bytes: number;
  last_read_at: string | null;
  gone: boolean;
  error: string | null;
}

/** A page of files, and the sums over all of them. */
export interface FileList {
  items: FileRow[];
  next: string | null;
  total: number;
  recording: RecordingState;
}

/** A line that could not be understood. */
export interface QuarantineRow {
  id: number;
  file: string;
  offset: number;
  length: number;
  reason: string;
  salvaged: number;
  found_at: string;
  resolved_at: string | null;
  retry_asked_at: string | null;
  retry_result: string | null;
}

/** A page of them, newest first. */
export interface QuarantineList {
  items: QuarantineRow[];
  next: string | null;
  open: number;
  counted_only: number;
}

/** One of them with its line; null where it was too long to be stored. */
export interface QuarantineDetail extends QuarantineRow {
  line: string | null;
  cut: boolean;
}

/** How many lines will be tried again. */
export interface RetryAnswer {
  asked: number;
}

/** A day or a month of tokens. */
export interface BudgetPeriod {
  period: string;
  limit: number;
  used: number;
  failed: number;
  reserved: number;
  ceiling: number;
  left: number;
}

/** The numbers that refuse calls. */
export interface Budget {
  allowed: boolean;
  reason: string | null;
  timezone: string;
  day: BudgetPeriod;
  month: BudgetPeriod;
}

/** The breaker of an application. */
export interface BreakerRow {
  app: string;
  app_type: string;
  title: string;
  titles: Record<string, string>;
  provider: string;
  model: string | null;
  app_id: string | null;
  state: CircuitState;
  failure_count: number;
  last_failure_at: string | null;
  changed_at: string | null;
  retry_after: number;
  held: boolean;
}

/** A rate window that has calls in it. */
export interface LimitRow {
  scope: string;
  key: string;
  seconds: number;
  calls: number;
  limit: number;
}

/** A call to an application, without its texts. */
export interface RunRow {
  id: number;
  site_id: number;
  app_type: string;
  trigger_type: string;
  member_id: number | null;
  tokens_used: number | null;
  tokens_reserved: number;
  tokens_ceiling: number;
  tokens_estimated: boolean;
  input_tokens: number | null;
  output_tokens: number | null;
  latency_ms: number | null;
  status: RunStatus;
  error_message: string | null;
  session_id: string | null;
  session_key: string | null;
  created_at: string;
  finished_at: string | null;
  user_id: string | null;
  conversation_id: number | null;
  trigger_job_id: number | null;
  step: string | null;
  model: string | null;
  request_id: string | null;
  attempts: number;
}

/** A page of calls, newest first. */
export interface RunList {
  items: RunRow[];
  next: string | null;
}

/** A call with its texts. */
export interface RunDetail extends RunRow {
  request_prompt: string | null;
  response_text: string | null;
}

/** Everything that can refuse a call. */
export interface Guards {
  breakers: BreakerRow[];
  limits: LimitRow[];
  budget: Budget;
  reservations: RunRow[];
}

/** A job in a list. */
export interface JobRow {
  id: number;
  site_id: number;
  event_type: string;
  connector_type: string | null;
  member_id: number | null;
  status: JobStatus;
  is_forced: boolean;
  app_chain: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  error_message: string | null;
  event_date: string;
  rerun_of: number | null;
  cancel_requested: boolean;
  schedule: string | null;
  session_id: string;
  session_key: string;
}

/** A page of jobs, newest first. */
export interface JobList {
  items: JobRow[];
  next: string | null;
}

/** One call of a step; a step that was called again has several. */
export interface StepCall {
  run_id: number;
  status: RunStatus;
  prompt: string | null;
  response: string | null;
  tokens_used: number;
  attempts: number;
  latency_ms: number | null;
  model: string | null;
  error: string | null;
  created_at: string;
  finished_at: string | null;
}

/** A step of the chain, whether it was called or not. */
export interface ChainStep {
  name: string;
  app: string;
  title: string;
  titles: Record<string, string>;
  after: string[];
  status: StepStatus;
  calls: StepCall[];
}

/** A job with its chain. */
export interface JobDetail extends JobRow {
  payload: Record<string, unknown> | null;
  steps: ChainStep[];
}

/** The job that was started. */
export interface JobAccepted {
  job_id: number;
  status: JobStatus;
  duplicate_of: number | null;
}

/** A cached result, without its body. */
export interface CacheRow {
  id: number;
  cache_type: string;
  site_id: number;
  target_id: string;
  status: CacheStatus;
  created_at: string;
  expires_at: string | null;
  triggered_by: string | null;
}

/** A page of results, newest first. */
export interface CacheList {
  items: CacheRow[];
  next: string | null;
  types: string[];
}

/** A cached result whole. */
export interface CacheDetail extends CacheRow {
  result: unknown;
}

/** How many results were invalidated. */
export interface Invalidated {
  invalidated: number;
}

/** An application of the catalog. */
export interface AppInfo {
  app: string;
  app_type: string;
  title: string;
  titles: Record<string, string>;
  provider: string;
  model: string | null;
  app_id: string | null;
  stream: boolean;
  rate_scope: string;
  rate_limit: number;
  rate_seconds: number;
  app_limit: number | null;
  app_limit_seconds: number | null;
}

/** An event of the catalog and the steps it starts. */
export interface EventInfo {
  event: string;
  steps: string[];
}

/** Applications and events. */
export interface Catalog {
  apps: AppInfo[];
  events: EventInfo[];
  missing: string[];
  chat_app: string | null;
  chat_missing: string[];
}

/** Whether the run half works, and the state of its guards and jobs. */
export interface RunState {
  available: boolean;
  used: boolean;
  reason: string | null;
  missing: string[];
  budget: Budget | null;
  breakers: BreakerRow[];
  running_jobs: number;
  waiting_jobs: number;
  failed_jobs_today: number;
}

/** An action, without what must not be shown. */
export interface RuleAction {
  name: string;
  type: "chain" | "webhook" | "notify" | "command";
  address: string | null;
  format: "json" | "slack" | "teams" | "dingtalk" | "feishu" | null;
  signed: boolean;
  headers: string[];
  allow_private: boolean;
  apps: string[];
  input: string | null;
  max_chars: number | null;
  keep: string[];
  command: string | null;
  timeout_seconds: number;
  language: string;
  missing: string[];
  origin: string;
}

/** What calls of applications cost; unknown is never 0. */
export interface RuleCost {
  cost: number | null;
  currency: string | null;
  costs: Record<string, number>;
  unpriced_tokens: number;
  unpriced_models: string[];
  unrecorded_tokens: number;
}

/** A rule: how it is switched, and how often it fired. */
export interface Rule {
  name: string;
  title: string;
  on: "session.waiting" | "session.ended" | "session.stuck" | "turn.failed" | "tool.failed" | "budget.crossed" | "limit.crossed" | "secret.found" | "quarantine.grew" | "export.refused";
  where: Record<string, unknown>;
  do: RuleAction[];
  settle_seconds: number;
  sample: number;
  once: "session" | "turn" | "span" | "crossing";
  cooldown_seconds: number;
  max_per_day: number;
  tokens_per_day: number | null;
  start: string;
  mode: "on" | "dry" | "off";
  origin: string;
  since: string | null;
  paused: string | null;
  failures: number;
  fired_today: number;
  tokens_today: number;
  cost_today: RuleCost | null;
  last_fired_at: string | null;
  states: Record<string, number>;
}

/** Why; values that are not known are null. */
export interface Reason {
  code: "before_start" | "sample" | "session_removed" | "caused" | "demo" | "history" | "went_on" | "fired_before" | "fired_already" | "cooling" | "noted_before" | "told" | "most_messages" | "most_tokens" | "later_messages" | "later_tokens" | "switched_off" | "collected" | "is" | "secret_by_name" | "labels" | "cost_unknown" | "cost" | "tokens" | "turns" | "minutes" | "errors" | "threshold" | "above";
  facts: Record<string, string | number | null>;
}

/** What a rule decided about an event. */
export interface RuleFiring {
  id: number;
  rule: string;
  event: string;
  at: string | null;
  session: string | null;
  session_id: string | null;
  title: string | null;
  agent: string | null;
  span_id: string | null;
  turn: number | null;
  facts: Record<string, unknown>;
  state: "settling" | "held" | "queued" | "running" | "done" | "failed" | "collected" | "dry" | "skipped";
  reason: string | null;
  why: Reason | null;
  due_at: string | null;
  fired_at: string | null;
  ended_at: string | null;
  message: number | null;
  tokens: number;
  cost: RuleCost | null;
}

/** One attempt of an action. */
export interface RuleAttempt {
  at: string | null;
  seconds: number;
  outcome: string;
  detail: string;
}

/** An action of a firing. */
export interface RuleFiringAction {
  name: string;
  idempotency_key: string;
  state: "queued" | "running" | "done" | "failed";
  attempts: RuleAttempt[];
  due_at: string | null;
  started_at: string | null;
  ended_at: string | null;
  answer: string | null;
  error: string | null;
  tokens: number;
  cost: RuleCost | null;
}

/** A firing with its actions and their attempts. */
export interface RuleFiringDetail extends RuleFiring {
  actions: RuleFiringAction[];
}

/** An event of the past, and what the rule would have done. */
export interface TriedEvent {
  event: string;
  at: string | null;
  session: string | null;
  session_id: string | null;
  title: string | null;
  agent: string | null;
  facts: Record<string, unknown>;
  fires: boolean;
  reason: string | null;
  why: Reason | null;
  fires_at: string | null;
  tokens: number;
}

/** Why events would not have fired. */
export interface TrialReason {
  reason: string;
  why: Reason;
  events: number;
}

/** What an action that calls applications would have used, estimated. */
export interface TrialChain {
  action: string;
  apps: string[];
  basis: "firings" | "input";
  tokens: number;
  cost: RuleCost | null;
}

/** What a trial cannot know, or how it was estimated: in English, and as a code with its facts. */
export interface TrialRemark {
  code: "costs_of_now" | "permission_waits" | "span_silence" | "budgets_of_now" | "last_reports" | "latest_lines" | "tokens_of_firings" | "tokens_of_input";
  facts: Record<string, string | number | null>;
  text: string;
}

/** What a rule would have done in a period. */
export interface RuleTrial {
  rule: string;
  since: string | null;
  until: string | null;
  events: number;
  fired: number;
  messages: number;
  not_fired: number;
  reasons: TrialReason[];
  examples: TriedEvent[];
  cut: boolean;
  tokens: number;
  cost: RuleCost | null;
  chains: TrialChain[];
  remarks: TrialRemark[];
}

/** A kind of event, and what it means where a rule does not say it. */
export interface RuleEventKind {
  kind: "session.waiting" | "session.ended" | "session.stuck" | "turn.failed" | "tool.failed" | "budget.crossed" | "limit.crossed" | "secret.found" | "quarantine.grew" | "export.refused";
  once: "session" | "turn" | "span" | "crossing";
  settle_seconds: number;
}

/** Whether the rules are run. */
export interface RuleEngineState {
  running: boolean;
  pid: number | null;
}

/** An application of the catalog. */
export interface RuleApp {
  name: string;
  title: string;
  titles: Record<string, string>;
  missing: string[];
}

/** All rules and actions, with those that ship. */
export interface RuleList {
  engine: RuleEngineState;
  problem: string | null;
  file: string;
  console_file: string;
  items: Rule[];
  actions: RuleAction[];
  apps: RuleApp[];
  apps_problem: string | null;
  events: RuleEventKind[];
}

/** What rules decided, the latest first. */
export interface RuleFiringList {
  items: RuleFiring[];
  next: string | null;
}

/** The name of what was changed. */
export interface RuleChange {
  name: string;
}

/** Whether a firing was queued again. */
export interface RuleRetry {
  id: number;
  queued: boolean;
}

/** A destination of spans, and its progress. */
export interface Destination {
  name: string;
  kind: string;
  address: string;
  state: "idle" | "sending" | "confirming" | "waiting" | "paused" | "unused" | "stopped" | "removed";
  reason: string | null;
  retry_at: string | null;
  paused: boolean;
  queued: number;
  sending: number;
  acknowledged: number;
  refused: number;
  unknown: number;
  dropped: number;
  late: number;
  rejected: number;
  annotations: number;
  refused_annotations: number;
  refusal: string | null;
  oldest_queued_at: string | null;
  last_success_at: string | null;
  last_error: string | null;
  last_error_at: string | null;
  requests: number;
  sent_bytes: number;
  added_at: string | null;
  since: string | null;
}

/** Whether an exporter runs. */
export interface ExporterState {
  running: boolean;
  pid: number | null;
}

/** The exporter and all destinations. */
export interface Exports {
  exporter: ExporterState;
  destinations: Destination[];
}

/** A span for a destination; of a span that was removed from the store, only its place is known. */
export interface ExportSpan {
  session: string;
  session_id: string | null;
  agent: string | null;
  title: string | null;
  span_id: string;
  span: string | null;
  kind: string | null;
  started_at: string | null;
  state: "queued" | "sending" | "acknowledged" | "refused" | "unknown" | "dropped";
  attempts: number;
  at: string;
  answer: string | null;
  late: boolean;
}

/** Spans of a destination. */
export interface ExportSpanList {
  items: ExportSpan[];
  next: string | null;
}

/** How many spans were changed. */
export interface ExportChange {
  spans: number;
}

/** The traces that a backfill has added to a destination. */
export interface Backfill {
  traces: number;
  since: string | null;
}

/** A day's sums, by model. */
export interface DayUsage {
  day: string;
  bill: Bill;
  parts: NamedBill[];
}

/** A day of a period; or an hour of today, of which only the responses are known. */
export interface PartUsage {
  name: string;
  requests: number;
  tokens: number | null;
  costs: Record<string, number> | null;
}

/** What was used in a span of time. */
export interface SpanUsage {
  bill: Bill;
  tokens: number;
  amounts: Record<string, number>;
}

/** The period before, up to when it was as old as the present one is now. */
export interface EarlierUsage extends SpanUsage {
  first_day: string;
  until: string;
}

/** Today, this week or this month. */
export interface PeriodUsage extends SpanUsage {
  period: "day" | "week" | "month";
  first_day: string;
  start: string;
  end: string;
  before: EarlierUsage;
  whole_before: SpanUsage;
  cost_change: number | null;
  token_change: number | null;
  forecast_costs: Record<string, number>;
  forecast_tokens: number;
  parts: PartUsage[];
}

/** How many responses came in each hour of a day. */
export interface ActiveDay {
  day: string;
  hours: number[];
}

/** A project; null are sessions without one. */
export interface ProjectUsage extends SpanUsage {
  project: string | null;
}

/** Cost and tokens by period, activity, and the largest projects of the last 30 days. */
export interface OverviewFigures {
  at: string;
  timezone: string;
  currency_problem: string | null;
  periods: PeriodUsage[];
  activity: ActiveDay[];
  projects: ProjectUsage[];
}

/** One thing that needs the user. */
export interface Attention {
  kind: "recorder_failing" | "recorder_stopped" | "lines_quarantined" | "export_failing" | "export_refused" | "rule_paused" | "rule_failing" | "budget" | "limit" | "calls_refused" | "breaker_open" | "jobs_failed";
  level: "failed" | "waiting";
  name: string | null;
  period: string | null;
  count: number | null;
  share: number | null;
  detail: string | null;
  until: string | null;
  session_key: string | null;
}

/** The first page. */
export interface Overview {
  at: string;
  timezone: string;
  working: SessionRow[];
  waiting: SessionRow[];
  failed: SessionRow[];
  today: Bill;
  today_by_model: NamedBill[];
  today_by_agent: NamedBill[];
  month: Bill;
  month_by_model: NamedBill[];
  month_by_agent: NamedBill[];
  days: DayUsage[];
  figures: OverviewFigures;
  attention: Attention[];
  recording: RecorderState;
  run: RunState;
  exports: Exports;
}

/** A session that works, or waits for its user. */
export interface CurrentSession {
  session: string;
  session_id: string;
  agent: string;
  title: string | null;
  project: string | null;
  state: "working" | "waiting";
  person: string | null;
  machine: string | null;
  since: string | null;
}

/** What a person works on: sessions that work, and after them those that wait, the latest first. */
export interface PersonNow {
  person: string | null;
  sessions: CurrentSession[];
}

/** What was used, and what it cost by currency. */
export interface TeamUsage {
  tokens: number;
  costs: Record<string, number>;
  unpriced_tokens: number;
}

/** A person with the machines of their sessions, or a machine with the persons. */
export interface TeamRow {
  name: string | null;
  others: string[];
  working: number;
  waiting: number;
  sessions_today: number;
  today: TeamUsage;
  week: TeamUsage;
  heard_at: string | null;
  version: string | null;
}

/** The persons and machines of a team, by name. */
export interface Team {
  name: string | null;
  timezone: string;
  persons: TeamRow[];
  machines: TeamRow[];
  now: PersonNow[];
}

/** A setting: its value, and where it comes from. */
export interface SettingRow {
  name: string;
  value: unknown;
  origin: string;
  secret: boolean;
  description: string;
}

/** The team whose sessions this server has. */
export interface TeamServer {
  name: string;
}

/** All settings. */
export interface SettingList {
  home: string;
  file: string;
  team: TeamServer | null;
  items: SettingRow[];
}

/** A finding of the doctor. */
export interface Check {
  name: string;
  state: "ok" | "warn" | "fail";
  found: string;
  fix: string;
}

/** All findings. */
export interface Doctor {
  ok: boolean;
  checks: Check[];
}

/** The current user and role. */
export interface Me {
  name: string | null;
  role: "viewer" | "member" | "admin" | null;
  login_required: boolean;
  by_link: boolean;
  users_exist: boolean;
  sso: string | null;
  csrf: string | null;
  program: string;
  version: string;
}

/** What ended when a person was removed. */
export interface RemovedPerson {
  person: string;
  sessions: number;
  machines: number;
  logins: number;
  tokens: number;
}

/** A change, and who made it. */
export interface AuditRow {
  id: number;
  at: string;
  user: string;
  address: string;
  action: string;
  target: string;
  outcome: string;
}

/** A page of the audit log, newest first. */
export interface AuditList {
  items: AuditRow[];
  next: string | null;
}

/** Whether there are demo sessions; ``removing`` until the recorder has removed them. */
export interface DemoData {
  state: "absent" | "loaded" | "removing";
}

/** A saved view of a page. */
export interface SavedView {
  id: string;
  page: "sessions" | "usage" | "insights";
  name: string;
  search: string;
  shared: boolean;
  owner: string;
  mine: boolean;
}

/** The saved views of the visitor, and those that others share. */
export interface SavedViewList {
  items: SavedView[];
}

/** The first message of a stream. */
export interface LiveHello {
  cursor: number;
  version: string;
  notice: number;
}

/** Sessions that have changed. */
export interface LiveSessions {
  cursor: number;
  rows: SessionRow[];
}

/** The texts of changed spans of the watched session, each cut after ``chars``. */
export interface LiveTexts {
  cursor: number;
  session: string;
  chars: number;
  spans: Record<string, TextPiece[]>;
}

/** A notification of a rule. */
export interface LiveNotice {
  id: string;
  firing: number;
  rule: string;
  title: string;
  text: string;
  at: string | null;
  session: string | null;
  span_id: string | null;
}

/** Notifications of rules. */
export interface LiveNotices {
  cursor: number;
  notice: number;
  items: LiveNotice[];
}

/** Too much has changed: load everything again. */
export interface LiveReset {
  cursor: number;
}
