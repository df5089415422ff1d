CREATE TABLE biz.ai_run_logs (
    id BIGSERIAL PRIMARY KEY,
    site_id BIGINT NOT NULL,
    app_type VARCHAR(30) NOT NULL,
    trigger_type VARCHAR(20) NOT NULL
        CONSTRAINT ck_ai_run_logs_trigger_type CHECK (trigger_type IN ('user', 'scheduled', 'event', 'forced')),
    member_id BIGINT,
    request_prompt TEXT CONSTRAINT ck_ai_run_logs_prompt CHECK (char_length(request_prompt) <= 2000),
    response_text TEXT,
    tokens_used INTEGER DEFAULT 0,
    latency_ms INTEGER,
    status VARCHAR(20) NOT NULL DEFAULT 'pending'
        CONSTRAINT ck_ai_run_logs_status CHECK (status IN ('pending', 'running', 'success', 'failed', 'timeout',
                                                           'budget_exceeded', 'circuit_open', 'rate_limited')),
    error_message TEXT,
    session_id VARCHAR(100),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    finished_at TIMESTAMPTZ,
    -- Beyond the document: whose call it was, what it reserved, and what the provider said.
    call_key UUID UNIQUE,
    process_id UUID,
    user_id VARCHAR(100),
    conversation_id BIGINT,
    trigger_job_id BIGINT,
    step VARCHAR(60),
    tokens_reserved INTEGER NOT NULL DEFAULT 0,
    tokens_estimated BOOLEAN NOT NULL DEFAULT false,
    input_tokens INTEGER,
    output_tokens INTEGER,
    model VARCHAR(100),
    request_id VARCHAR(100),
    attempts INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT ck_ai_run_logs_success CHECK (
        status <> 'success' OR (response_text IS NOT NULL AND tokens_used IS NOT NULL
                                AND latency_ms IS NOT NULL AND finished_at IS NOT NULL)),
    CONSTRAINT ck_ai_run_logs_failed CHECK (status <> 'failed' OR error_message IS NOT NULL)
);
CREATE INDEX idx_ai_run_logs_site_app ON biz.ai_run_logs(site_id, app_type);
CREATE INDEX idx_ai_run_logs_created ON biz.ai_run_logs(created_at);
CREATE INDEX idx_ai_run_logs_status ON biz.ai_run_logs(status);
CREATE INDEX idx_ai_run_logs_job ON biz.ai_run_logs(trigger_job_id) WHERE trigger_job_id IS NOT NULL;
CREATE INDEX idx_ai_run_logs_open ON biz.ai_run_logs(process_id) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX idx_ai_run_logs_step_done ON biz.ai_run_logs(trigger_job_id, step)
    WHERE status = 'success' AND trigger_job_id IS NOT NULL;

CREATE TABLE biz.ai_trigger_jobs (
    id BIGSERIAL PRIMARY KEY,
    site_id BIGINT NOT NULL,
    event_type VARCHAR(30) NOT NULL,
    connector_type VARCHAR(30) DEFAULT 'feiqiu',
    member_id BIGINT,
    payload JSONB,
    status VARCHAR(20) NOT NULL DEFAULT 'pending'
        CONSTRAINT ck_ai_trigger_jobs_status CHECK (status IN ('pending', 'running', 'completed', 'failed',
                                                               'skipped_duplicate', 'budget_exceeded', 'cancelled')),
    is_forced BOOLEAN NOT NULL DEFAULT false,
    app_chain VARCHAR(100),
    started_at TIMESTAMPTZ,
    finished_at TIMESTAMPTZ,
    error_message TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    -- The day of the event in the business time zone: created_at::date is not immutable, so no index takes it.
    event_date DATE NOT NULL,
    -- Counts the workers that took the job; an earlier one that wakes up again is turned away.
    claim INTEGER NOT NULL DEFAULT 0,
    rerun_of BIGINT,
    cancel_requested BOOLEAN NOT NULL DEFAULT false
);
CREATE INDEX idx_ai_trigger_jobs_site ON biz.ai_trigger_jobs(site_id, event_type);
CREATE UNIQUE INDEX idx_ai_trigger_jobs_dedup
    ON biz.ai_trigger_jobs(event_type, member_id, site_id, event_date) NULLS NOT DISTINCT
    WHERE NOT is_forced AND status <> 'skipped_duplicate';
CREATE INDEX idx_ai_trigger_jobs_status ON biz.ai_trigger_jobs(status);
CREATE INDEX idx_ai_trigger_jobs_created ON biz.ai_trigger_jobs(created_at);

ALTER TABLE biz.ai_conversations ADD COLUMN session_id VARCHAR(100);
UPDATE biz.ai_conversations
    SET session_id = 'conv_' || id || '_' || floor(extract(epoch FROM created_at))::bigint;
CREATE UNIQUE INDEX idx_ai_conversations_session ON biz.ai_conversations(session_id);
-- The cloud's own session: its id, how many rounds it has seen, when it was last used; given up for good once lost.
ALTER TABLE biz.ai_conversations
    ADD COLUMN cloud_session_id VARCHAR(100),
    ADD COLUMN cloud_rounds INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN cloud_used_at TIMESTAMPTZ,
    ADD COLUMN local_history BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE biz.ai_messages ADD COLUMN run_log_id BIGINT;

ALTER TABLE biz.ai_cache ADD COLUMN status VARCHAR(20) DEFAULT 'valid'
    CHECK (status IN ('valid', 'expired', 'invalidated', 'generating'));
ALTER TABLE biz.ai_cache ALTER COLUMN result_json DROP NOT NULL;
ALTER TABLE biz.ai_cache ADD CONSTRAINT ck_ai_cache_result
    CHECK (result_json IS NOT NULL OR status IN ('generating', 'expired'));
-- Of several rows of one target the newest stays valid.
UPDATE biz.ai_cache AS older SET status = 'expired' WHERE EXISTS (
    SELECT FROM biz.ai_cache AS newer
    WHERE (newer.cache_type, newer.site_id, newer.target_id) = (older.cache_type, older.site_id, older.target_id)
        AND (newer.created_at, newer.id) > (older.created_at, older.id));
CREATE UNIQUE INDEX idx_ai_cache_valid ON biz.ai_cache(cache_type, site_id, target_id) WHERE status = 'valid';
CREATE UNIQUE INDEX idx_ai_cache_generating ON biz.ai_cache(cache_type, site_id, target_id)
    WHERE status = 'generating';
-- All that trimming has to know about a row.
CREATE INDEX idx_ai_cache_age ON biz.ai_cache(cache_type, created_at) INCLUDE (id, status);
CREATE INDEX idx_ai_cache_expiry ON biz.ai_cache(expires_at) WHERE status IN ('valid', 'generating');

ALTER TABLE biz.member_retention_clue
    ADD COLUMN clue_date DATE,
    ADD COLUMN trigger_job_id BIGINT,
    ADD COLUMN updated_at TIMESTAMPTZ NOT NULL DEFAULT now();
UPDATE biz.member_retention_clue
    SET clue_date = (created_at AT TIME ZONE 'Asia/Shanghai')::date, updated_at = created_at;
-- Of several rows of one member and day the newest stays; the others are kept aside.
CREATE TABLE biz.member_retention_clue_replaced (
    id BIGINT PRIMARY KEY,
    site_id BIGINT NOT NULL,
    member_id BIGINT NOT NULL,
    summary TEXT NOT NULL,
    clues JSONB NOT NULL DEFAULT '[]',
    source VARCHAR(30) NOT NULL DEFAULT 'app8_consolidate',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
WITH older AS (
    DELETE FROM biz.member_retention_clue AS older WHERE EXISTS (
        SELECT FROM biz.member_retention_clue AS newer
        WHERE (newer.site_id, newer.member_id, newer.clue_date) = (older.site_id, older.member_id, older.clue_date)
            AND (newer.created_at, newer.id) > (older.created_at, older.id))
    RETURNING id, site_id, member_id, summary, clues, source, created_at)
INSERT INTO biz.member_retention_clue_replaced SELECT * FROM older;
ALTER TABLE biz.member_retention_clue ALTER COLUMN clue_date SET NOT NULL;
CREATE UNIQUE INDEX idx_member_retention_clue_day ON biz.member_retention_clue(site_id, member_id, clue_date);
