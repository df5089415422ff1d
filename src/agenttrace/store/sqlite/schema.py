"""The tables of the trace store, as one script a version; ``PRAGMA user_version`` says which ones a file has.

What shaped them (measured, two cores): 16 KiB pages and large batches give two and a half times the default
throughput for wide rows; text ids cost half the speed of 16-byte blobs; each further index costs 0.7 µs a row;
WITHOUT ROWID pays only for narrow tables.
"""

from __future__ import annotations

PAGE_SIZE = 16_384

#: Migrations in order; the n-th brings a file from version n to n + 1. Never edit one that was released.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (
        key   TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;

    -- Running totals that outlive the process: dedup hits per tier, lines by outcome.
    CREATE TABLE counters (
        name  TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) WITHOUT ROWID;

    -- How far each file was read, and by what it is recognised again.
    CREATE TABLE file_offsets (
        filepath      TEXT PRIMARY KEY,
        offset        INTEGER NOT NULL DEFAULT 0,
        inode         INTEGER,
        fingerprint   TEXT,
        file_size     INTEGER NOT NULL DEFAULT 0,
        last_read_at  REAL NOT NULL,
        read_count    INTEGER NOT NULL DEFAULT 0,
        file_id       INTEGER NOT NULL DEFAULT 0,
        device        INTEGER,
        mtime_ns      INTEGER,
        head_length   INTEGER NOT NULL DEFAULT 0,
        tail_hash     TEXT,
        generation    INTEGER NOT NULL DEFAULT 0,
        blocks        INTEGER NOT NULL DEFAULT 0,
        source        BLOB,
        lines         INTEGER NOT NULL DEFAULT 0,
        recorded      INTEGER NOT NULL DEFAULT 0,
        duplicate     INTEGER NOT NULL DEFAULT 0,
        ignored       INTEGER NOT NULL DEFAULT 0,
        quarantined   INTEGER NOT NULL DEFAULT 0,
        lost_bytes    INTEGER NOT NULL DEFAULT 0,
        error         TEXT,
        gone_at       REAL
    );
    CREATE INDEX idx_last_read ON file_offsets(last_read_at);
    CREATE INDEX idx_file_id ON file_offsets(file_id);

    -- One row a recorded line: its own ledger, unique for ever, and the way back to the raw line.
    CREATE TABLE processed_events (
        event_no     INTEGER PRIMARY KEY,
        event_id     BLOB NOT NULL,
        session_id   INTEGER NOT NULL,
        turn_index   INTEGER NOT NULL,
        step_n       INTEGER NOT NULL,
        event_type   TEXT NOT NULL,
        span_id      BLOB,
        processed_at REAL NOT NULL,
        block_id     INTEGER,
        line_n       INTEGER
    );
    -- Ids are unique inside their session, and looked up there: one index for both, with neighbours side by side,
    -- costs half of a global unique index over random ids and one more over sessions.
    CREATE UNIQUE INDEX idx_session ON processed_events(session_id, event_id);
    CREATE INDEX idx_processed_at ON processed_events(processed_at);

    -- The recorded lines themselves, compressed together; ``offsets`` holds each line's place in its file.
    CREATE TABLE raw_blocks (
        block_id   INTEGER PRIMARY KEY,
        file_id    INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        lines      INTEGER NOT NULL,
        raw_bytes  INTEGER NOT NULL,
        stored_at  REAL NOT NULL,
        offsets    BLOB NOT NULL,
        data       BLOB NOT NULL
    );

    -- Lines that could not be understood, whole up to a limit, with place and reason.
    CREATE TABLE quarantine (
        quarantine_id INTEGER PRIMARY KEY AUTOINCREMENT,
        file_id       INTEGER NOT NULL,
        filepath      TEXT NOT NULL,
        generation    INTEGER NOT NULL,
        offset        INTEGER NOT NULL,
        length        INTEGER NOT NULL,
        digest        BLOB NOT NULL,
        reason        TEXT NOT NULL,
        salvaged      INTEGER NOT NULL DEFAULT 0,
        found_at      REAL NOT NULL,
        resolved_at   REAL,
        raw           BLOB,
        UNIQUE (file_id, offset, digest)
    );

    CREATE TABLE sessions (
        id           INTEGER PRIMARY KEY,
        agent        TEXT NOT NULL,
        session_id   TEXT NOT NULL,
        project      TEXT,
        branch       TEXT,
        title        TEXT,
        first_prompt TEXT,
        version      TEXT,
        model        TEXT,
        parent       TEXT,
        copied       INTEGER NOT NULL DEFAULT 0,
        born         INTEGER,
        state        TEXT NOT NULL DEFAULT 'working',
        started_at   INTEGER,
        last_at      INTEGER,
        turns        INTEGER NOT NULL DEFAULT 0,
        steps        INTEGER NOT NULL DEFAULT 0,
        tools        INTEGER NOT NULL DEFAULT 0,
        errors       INTEGER NOT NULL DEFAULT 0,
        events       INTEGER NOT NULL DEFAULT 0,
        UNIQUE (agent, session_id)
    );
    CREATE INDEX idx_sessions_last ON sessions(last_at);

    -- What folding must remember between two batches of one stream of events.
    CREATE TABLE streams (
        session_id INTEGER NOT NULL,
        stream     TEXT NOT NULL,
        state      BLOB NOT NULL,
        PRIMARY KEY (session_id, stream)
    ) WITHOUT ROWID;

    -- Which tool call a subagent's stream carries out.
    CREATE TABLE links (
        session_id    INTEGER NOT NULL,
        stream        TEXT NOT NULL,
        parent_stream TEXT NOT NULL,
        call          TEXT NOT NULL,
        PRIMARY KEY (session_id, stream)
    ) WITHOUT ROWID;

    CREATE TABLE spans (
        span_no     INTEGER PRIMARY KEY,
        span_id     BLOB NOT NULL,
        trace_id    BLOB NOT NULL,
        parent_id   BLOB,
        session_id  INTEGER NOT NULL,
        stream      TEXT NOT NULL,
        kind        TEXT NOT NULL,
        name        TEXT NOT NULL,
        start       INTEGER NOT NULL,
        "end"       INTEGER,
        status      TEXT NOT NULL,
        model       TEXT,
        turn_index  INTEGER NOT NULL,
        step_n      INTEGER NOT NULL,
        response    BLOB,
        attributes  TEXT
    );
    CREATE UNIQUE INDEX idx_spans_session ON spans(session_id, span_id);

    -- One row a model response, whichever and how many sessions hold a copy: the owner pays.
    CREATE TABLE responses (
        response     BLOB PRIMARY KEY,
        session_id   INTEGER NOT NULL,
        at           INTEGER NOT NULL,
        day          TEXT NOT NULL,
        model        TEXT NOT NULL,
        estimated    INTEGER NOT NULL,
        copies       INTEGER NOT NULL,
        input_tokens          INTEGER NOT NULL,
        output_tokens         INTEGER NOT NULL,
        cache_read_tokens     INTEGER NOT NULL,
        cache_write_tokens    INTEGER NOT NULL,
        cache_write_1h_tokens INTEGER NOT NULL,
        reasoning_tokens      INTEGER NOT NULL
    ) WITHOUT ROWID;

    -- The sums every usage view is made of.
    CREATE TABLE usage_rollup (
        day          TEXT NOT NULL,
        session_id   INTEGER NOT NULL,
        model        TEXT NOT NULL,
        requests     INTEGER NOT NULL,
        estimated    INTEGER NOT NULL,
        copies       INTEGER NOT NULL,
        input_tokens          INTEGER NOT NULL,
        output_tokens         INTEGER NOT NULL,
        cache_read_tokens     INTEGER NOT NULL,
        cache_write_tokens    INTEGER NOT NULL,
        cache_write_1h_tokens INTEGER NOT NULL,
        reasoning_tokens      INTEGER NOT NULL,
        PRIMARY KEY (day, session_id, model)
    ) WITHOUT ROWID;
    CREATE INDEX idx_rollup_session ON usage_rollup(session_id);

    -- Sessions whose data retention removed, and the files it came from: their event ids stay while the files do.
    CREATE TABLE pruned (
        session_id INTEGER NOT NULL,
        file_id    INTEGER NOT NULL,
        pruned_at  REAL NOT NULL,
        PRIMARY KEY (session_id, file_id)
    ) WITHOUT ROWID;

    -- Full text, filled in the background; rowid = processed_events.event_no.
    CREATE VIRTUAL TABLE search USING fts5(
        text, content = '', tokenize = "unicode61 remove_diacritics 2"
    );
    -- Larger leaves and a larger memory: fewer segments to merge, a sixth less time to fill.
    INSERT INTO search (search, rank) VALUES ('pgsz', 8000);
    INSERT INTO search (search, rank) VALUES ('hashsize', 8388608);
    """,
    """
    -- The last event there was when a span was written: what changed since a moment can be asked for without an index.
    ALTER TABLE spans ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;

    -- Another try at a line is the recorder's work; others ask for it here and read what came of it.
    ALTER TABLE quarantine ADD COLUMN retry_asked_at REAL;
    ALTER TABLE quarantine ADD COLUMN retry_result TEXT;
    """,
    """
    -- Where sealed traces go. The settings say how; what outlives them stands here.
    CREATE TABLE export_destinations (
        destination_id   INTEGER PRIMARY KEY,
        name             TEXT NOT NULL UNIQUE,
        kind             TEXT NOT NULL,
        address          TEXT NOT NULL,
        added_at         REAL NOT NULL,
        -- Traces that ended earlier are not sent.
        since            INTEGER NOT NULL,
        paused           INTEGER NOT NULL DEFAULT 0,
        removed_at       REAL,
        last_success_at  REAL,
        last_error       TEXT,
        last_error_at    REAL,
        retry_at         REAL,
        requests         INTEGER NOT NULL DEFAULT 0,
        sent_bytes       INTEGER NOT NULL DEFAULT 0,
        -- Spans that a destination refused without saying which ones.
        rejected         INTEGER NOT NULL DEFAULT 0,
        -- Why the exporter cannot use it; what it needs may be in the exporter's environment alone.
        unusable         TEXT
    );

    -- Traces of which something was recorded since they were last looked at for what may be sent.
    CREATE TABLE export_touched (
        session_id INTEGER NOT NULL,
        trace_id   BLOB NOT NULL,
        touched_at REAL NOT NULL,
        PRIMARY KEY (session_id, trace_id)
    ) WITHOUT ROWID;

    -- Queue and ledger: one row a span and destination, for ever.
    CREATE TABLE export_spans (
        queue_no       INTEGER PRIMARY KEY,
        destination_id INTEGER NOT NULL,
        session_id     INTEGER NOT NULL,
        span_id        BLOB NOT NULL,
        -- queued, sending, acknowledged, refused, unknown, dropped
        state          TEXT NOT NULL,
        attempts       INTEGER NOT NULL DEFAULT 0,
        queued_at      REAL NOT NULL,
        -- When it came into its state.
        at             REAL NOT NULL,
        -- What was sent; a span that is another one by now has changed too late.
        digest         BLOB,
        late           INTEGER NOT NULL DEFAULT 0,
        answer         TEXT
    );
    -- Not by session: a trace may become part of another one after it was sent.
    CREATE UNIQUE INDEX export_spans_once ON export_spans(destination_id, span_id);
    CREATE INDEX export_spans_left ON export_spans(destination_id, state) WHERE state <> 'acknowledged';
    CREATE INDEX export_spans_late ON export_spans(destination_id) WHERE late = 1;
    """,
    """
    -- Sessions with one beginning: which of them owns what they share depends on where each of them ends.
    CREATE INDEX idx_sessions_born ON sessions(born);

    -- Where nothing told a copy from its original, a response was left to the session that was recorded first.
    CREATE TEMP TABLE _best AS
    SELECT response, session_id FROM (
        SELECT spans.response, spans.session_id, row_number() OVER (
            PARTITION BY spans.response ORDER BY copied, born, sessions.last_at, sessions.id
        ) AS place
        FROM sessions CROSS JOIN spans ON sessions.id = spans.session_id
        WHERE spans.response IS NOT NULL AND born IN (
            SELECT born FROM sessions WHERE born IS NOT NULL GROUP BY copied, born HAVING count(*) > 1
        )
    ) WHERE place = 1;
    CREATE INDEX temp._best_response ON _best(response);
    UPDATE responses SET session_id = (SELECT _best.session_id FROM _best WHERE _best.response = responses.response)
    WHERE EXISTS (
        SELECT 1 FROM _best JOIN sessions best ON best.id = _best.session_id JOIN sessions owner USING (copied, born)
        WHERE _best.response = responses.response AND owner.id = responses.session_id
    );
    DROP TABLE _best;
    DELETE FROM usage_rollup;
    INSERT INTO usage_rollup
    SELECT day, session_id, model, count(*), sum(estimated), sum(copies), sum(input_tokens), sum(output_tokens),
        sum(cache_read_tokens), sum(cache_write_tokens), sum(cache_write_1h_tokens), sum(reasoning_tokens)
    FROM responses GROUP BY day, session_id, model;
    """,
    """
    -- What agents say of their own usage beside the calls themselves: see store/totals.py.
    CREATE TABLE totals (
        session_id INTEGER NOT NULL,
        -- session, stream or call
        scope      TEXT NOT NULL,
        -- The stream that a count is of; for a call, who made it.
        whose      TEXT NOT NULL,
        -- The name of the count, or of the call's response.
        name       TEXT NOT NULL,
        -- When a session's count was told; 0 where only the latest matters.
        moment     INTEGER NOT NULL,
        model      TEXT NOT NULL,
        at         INTEGER NOT NULL,
        since      INTEGER NOT NULL,
        -- The turn in which it was told.
        trace_id   BLOB NOT NULL,
        parent_id  BLOB,
        turn_index INTEGER NOT NULL,
        input_tokens          INTEGER NOT NULL,
        output_tokens         INTEGER NOT NULL,
        cache_read_tokens     INTEGER NOT NULL,
        cache_write_tokens    INTEGER NOT NULL,
        cache_write_1h_tokens INTEGER NOT NULL,
        reasoning_tokens      INTEGER NOT NULL,
        web_searches          INTEGER NOT NULL,
        PRIMARY KEY (session_id, scope, whose, name, moment, model)
    ) WITHOUT ROWID;
    CREATE INDEX idx_totals_name ON totals(name) WHERE scope = 'session';
    -- Whether there are any calls to work out is asked with every batch.
    CREATE INDEX idx_totals_calls ON totals(session_id) WHERE scope <> 'stream';

    -- Searches that the provider ran, which are billed apart from tokens.
    ALTER TABLE responses ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE usage_rollup ADD COLUMN web_searches INTEGER NOT NULL DEFAULT 0;
    """,
    """
    -- How a response was served, and what its price depends on beside model and day: see prices.py.
    ALTER TABLE responses ADD COLUMN terms TEXT NOT NULL DEFAULT '';
    ALTER TABLE responses ADD COLUMN variant TEXT NOT NULL DEFAULT '';

    -- The same sums, by variant as well; they are made anew when recording starts.
    CREATE TABLE new_rollup (
        day          TEXT NOT NULL,
        session_id   INTEGER NOT NULL,
        model        TEXT NOT NULL,
        variant      TEXT NOT NULL,
        requests     INTEGER NOT NULL,
        estimated    INTEGER NOT NULL,
        copies       INTEGER NOT NULL,
        input_tokens          INTEGER NOT NULL,
        output_tokens         INTEGER NOT NULL,
        cache_read_tokens     INTEGER NOT NULL,
        cache_write_tokens    INTEGER NOT NULL,
        cache_write_1h_tokens INTEGER NOT NULL,
        reasoning_tokens      INTEGER NOT NULL,
        web_searches          INTEGER NOT NULL,
        PRIMARY KEY (day, session_id, model, variant)
    ) WITHOUT ROWID;
    INSERT INTO new_rollup
    SELECT day, session_id, model, '', requests, estimated, copies, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, web_searches
    FROM usage_rollup;
    DROP TABLE usage_rollup;
    ALTER TABLE new_rollup RENAME TO usage_rollup;
    CREATE INDEX idx_rollup_session ON usage_rollup(session_id);
    """,
    """
    -- Lines beyond the caps of the quarantine are only counted; known by their place, they count once.
    ALTER TABLE file_offsets ADD COLUMN counted_only INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE file_offsets ADD COLUMN counted_end INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX quarantine_waiting ON quarantine(file_id) WHERE resolved_at IS NULL;
    """,
    """
    -- Marks and offsets of other programs, which have files of their own now: every row here is the recorder's.
    DROP INDEX IF EXISTS idx_event_id;
    DELETE FROM processed_events WHERE session_id IN (SELECT id FROM sessions WHERE agent = '');
    DELETE FROM sessions WHERE agent = '';
    DELETE FROM file_offsets WHERE file_id = 0;
    """,
    """
    -- When a row was last written, as a number that grows with every commit: see store/rows.py.
    ALTER TABLE sessions ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE spans ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE responses ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE totals ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX idx_sessions_revision ON sessions(revision);
    CREATE INDEX idx_responses_revision ON responses(revision);

    -- Rows that were deleted because they were wrong, so that copies of the store delete them too.
    CREATE TABLE removed (
        -- span, response or session; a session's spans and events went to another session.
        kind       TEXT NOT NULL,
        session_id INTEGER NOT NULL,
        key        BLOB NOT NULL,
        revision   INTEGER NOT NULL,
        last_event INTEGER NOT NULL,
        PRIMARY KEY (kind, session_id, key)
    ) WITHOUT ROWID;
    CREATE INDEX idx_removed_revision ON removed(revision);

    -- Merged events with smaller numbers than the last event that is indexed for search.
    CREATE TABLE search_late (
        event_no INTEGER PRIMARY KEY
    );
    """,
    """
    -- What came of sessions, derived from their lines in the background: see store/sqlite/outcomes.py.
    CREATE TABLE outcomes (
        session_id    INTEGER PRIMARY KEY,
        -- How many events of the session were examined; 0 where some of them could not be read.
        events        INTEGER NOT NULL,
        examined_at   REAL NOT NULL,
        files         INTEGER NOT NULL,
        added         INTEGER,
        removed       INTEGER,
        commits       INTEGER NOT NULL,
        pull_requests INTEGER NOT NULL,
        test_runs     INTEGER NOT NULL,
        tests_passed  INTEGER,
        tests_failed  INTEGER,
        -- Of the commits, separated by blanks.
        hashes        TEXT NOT NULL
    );
    """,
    """
    -- With shares by time and model, for usage. Everything in it is derived: sessions are examined again.
    DROP TABLE outcomes;
    CREATE TABLE outcomes (
        session_id    INTEGER PRIMARY KEY,
        -- How many events of the session were examined; 0 where some of them could not be read.
        events        INTEGER NOT NULL,
        examined_at   REAL NOT NULL,
        files         INTEGER NOT NULL,
        added         INTEGER,
        removed       INTEGER,
        commits       INTEGER NOT NULL,
        pull_requests INTEGER NOT NULL,
        test_runs     INTEGER NOT NULL,
        tests_passed  INTEGER,
        tests_failed  INTEGER,
        -- JSON: OutcomeShare.
        shares        TEXT NOT NULL
    );
    """,
    """
    -- Notes, scores, labels and stars beside sessions: see store/sqlite/annotations.py.
    CREATE TABLE annotations (
        annotation_id BLOB PRIMARY KEY,
        session_id    INTEGER NOT NULL,
        -- The turn or span that it is about, where it is not the session.
        span_id       BLOB,
        -- note, score, label or star
        kind          TEXT NOT NULL,
        -- The name of a score, the label itself.
        name          TEXT NOT NULL,
        -- Of a score.
        value         REAL,
        text          TEXT NOT NULL,
        -- person, program or rule, and its name.
        source        TEXT NOT NULL,
        author        TEXT NOT NULL,
        created_at    REAL NOT NULL,
        changed_at    REAL NOT NULL,
        -- Removed ones stay, so that copies of the store remove them too.
        removed_at    REAL,
        revision      INTEGER NOT NULL,
        -- Its row in annotation_search; NULL where there is nothing to find.
        search_no     INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX idx_annotations_session ON annotations(session_id);
    CREATE INDEX idx_annotations_revision ON annotations(revision);
    CREATE INDEX idx_annotations_name ON annotations(kind, name) WHERE removed_at IS NULL;
    CREATE INDEX idx_annotations_search ON annotations(search_no) WHERE search_no IS NOT NULL;
    -- Names and texts for full text search.
    CREATE VIRTUAL TABLE annotation_search USING fts5(
        text, tokenize = "unicode61 remove_diacritics 2"
    );
    -- Which scores and notes were sent where: see store/sqlite/export_annotations.py.
    CREATE TABLE export_annotations (
        destination_id INTEGER NOT NULL,
        annotation_id  BLOB NOT NULL,
        -- The revision that was sent last, or is being sent.
        revision       INTEGER NOT NULL,
        -- sending, acknowledged or refused
        state          TEXT NOT NULL,
        at             REAL NOT NULL,
        reason         TEXT,
        PRIMARY KEY (destination_id, annotation_id)
    ) WITHOUT ROWID;

    -- Windows of the providers' own limits, as they were last told: see store/sqlite/provider_limits.py.
    CREATE TABLE provider_limits (
        agent          TEXT NOT NULL,
        -- The name of the window: five_hour, seven_day, primary, secondary.
        name           TEXT NOT NULL,
        -- When it ends, microseconds.
        resets_at      INTEGER NOT NULL,
        window_minutes INTEGER,
        used_percent   REAL NOT NULL,
        -- When that was so, microseconds.
        at             INTEGER NOT NULL,
        plan           TEXT,
        -- log or statusline
        source         TEXT NOT NULL,
        PRIMARY KEY (agent, name, resets_at)
    ) WITHOUT ROWID;
    -- What was used in the last hours: burn rates and five-hour blocks.
    CREATE INDEX idx_responses_at ON responses(at);

    -- Rules: see store/sqlite/rules.py. The row of a rule stays when it leaves the settings.
    CREATE TABLE rule_states (
        rule     TEXT PRIMARY KEY,
        -- Microseconds: earlier events do not fire it.
        since    INTEGER NOT NULL,
        added_at REAL NOT NULL,
        -- The kinds of events that are noted for it, separated by blanks; empty while it is off.
        kinds    TEXT NOT NULL,
        -- The switch of the user: on, dry or off; NULL: as the settings say.
        mode     TEXT,
        paused   TEXT,
        -- How many firings in a row have failed.
        failures INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;

    -- Events that no rule was asked about yet, written in the transaction that records them.
    CREATE TABLE rule_events (
        event_no    INTEGER PRIMARY KEY,
        key         BLOB NOT NULL UNIQUE,
        kind        TEXT NOT NULL,
        session_id  INTEGER,
        span_id     BLOB,
        turn_index  INTEGER NOT NULL,
        at          INTEGER NOT NULL,
        recorded_at REAL NOT NULL,
        facts       TEXT
    );

    -- Sessions of which something was recorded, and which may end or get stuck by silence.
    CREATE TABLE rule_sessions (
        session_id INTEGER PRIMARY KEY,
        touched_at REAL NOT NULL
    );

    -- What each rule decided about an event.
    CREATE TABLE rule_firings (
        firing_no  INTEGER PRIMARY KEY,
        rule       TEXT NOT NULL,
        event_key  BLOB NOT NULL,
        once_key   BLOB NOT NULL,
        kind       TEXT NOT NULL,
        session_id INTEGER,
        span_id    BLOB,
        turn_index INTEGER NOT NULL,
        at         INTEGER NOT NULL,
        facts      TEXT,
        -- settling, held, queued, running, done, failed, collected, dry or skipped
        state      TEXT NOT NULL,
        reason     TEXT,
        due_at     REAL NOT NULL,
        created_at REAL NOT NULL,
        fired_at   REAL,
        -- The day of that, for daily caps.
        day        TEXT,
        ended_at   REAL,
        -- The firing whose message has this one too.
        message    INTEGER,
        tokens     INTEGER NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX rule_firings_event ON rule_firings(rule, event_key);
    CREATE UNIQUE INDEX rule_firings_once ON rule_firings(rule, once_key)
        WHERE state NOT IN ('skipped', 'dry', 'settling');
    CREATE INDEX rule_firings_due ON rule_firings(due_at) WHERE state IN ('settling', 'held', 'queued', 'running');
    CREATE INDEX rule_firings_day ON rule_firings(rule, day) WHERE day IS NOT NULL;
    CREATE INDEX rule_firings_message ON rule_firings(message) WHERE message IS NOT NULL;
    CREATE INDEX rule_firings_session ON rule_firings(session_id);

    -- The actions of a firing, in order.
    CREATE TABLE rule_actions (
        firing_no       INTEGER NOT NULL,
        place           INTEGER NOT NULL,
        action          TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        -- queued, running, done or failed
        state           TEXT NOT NULL,
        attempts        INTEGER NOT NULL DEFAULT 0,
        due_at          REAL NOT NULL,
        started_at      REAL,
        ended_at        REAL,
        answer          TEXT,
        error           TEXT,
        tokens          INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (firing_no, place)
    ) WITHOUT ROWID;

    -- Each attempt of an action: the delivery log.
    CREATE TABLE rule_attempts (
        attempt_no INTEGER PRIMARY KEY,
        firing_no  INTEGER NOT NULL,
        place      INTEGER NOT NULL,
        at         REAL NOT NULL,
        seconds    REAL NOT NULL,
        outcome    TEXT NOT NULL,
        detail     TEXT NOT NULL
    );
    CREATE INDEX rule_attempts_firing ON rule_attempts(firing_no);

    -- How far something was looked through for rules, such as lines for secrets.
    CREATE TABLE rule_cursors (
        name  TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    -- In a team's store: the machine that recorded a session, and the person it belongs to.
    ALTER TABLE sessions ADD COLUMN machine TEXT;
    ALTER TABLE sessions ADD COLUMN person TEXT;
    """,
    """
    -- How far the changes of this store were sent to the server of a team. A rebuilt store begins anew, so this is not
    -- copied into it.
    CREATE TABLE team_pushes (
        destination_id INTEGER PRIMARY KEY,
        -- Names this store.
        store          TEXT NOT NULL,
        -- Cursors in MessagePack: what is acknowledged, and the end of the page that is being sent.
        acknowledged   BLOB NOT NULL,
        sending        BLOB,
        -- How far behind what is acknowledged nothing is to be sent.
        passed         BLOB,
        rows           INTEGER NOT NULL DEFAULT 0,
        -- Rows that the server refused, and lines that retention removed before they were sent.
        refused        INTEGER NOT NULL DEFAULT 0,
        lost           INTEGER NOT NULL DEFAULT 0
    );

    -- What of each session is sent: held (nothing until it changes), full, masked or figures; in a rebuilt store too.
    CREATE TABLE export_team_sessions (
        destination_id INTEGER NOT NULL,
        session_id     INTEGER NOT NULL,
        level          TEXT NOT NULL,
        -- 1: to be sent whole.
        due            INTEGER NOT NULL DEFAULT 0,
        -- How often the identity of a session of this destination had changed by then.
        epoch          INTEGER NOT NULL DEFAULT 0,
        -- How many events it had when it was held.
        events         INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (destination_id, session_id)
    ) WITHOUT ROWID;
    """,
)
