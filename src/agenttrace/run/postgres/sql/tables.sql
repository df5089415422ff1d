-- The tables, as the migrations leave them.

CREATE TABLE biz.ai_app_sizes (
    app_type VARCHAR(30) NOT NULL,
    day DATE NOT NULL,
    largest INTEGER NOT NULL,
    PRIMARY KEY (app_type, day)
);

CREATE TABLE biz.ai_breakers (
    app_id VARCHAR(100) PRIMARY KEY,
    state VARCHAR(10) NOT NULL DEFAULT 'closed',
    failure_count INTEGER NOT NULL DEFAULT 0,
    last_failure_at TIMESTAMPTZ,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    held BOOLEAN NOT NULL DEFAULT false,
    probe_key UUID,
    probe_until TIMESTAMPTZ,
    CONSTRAINT ai_breakers_state_check CHECK (state IN ('closed', 'open', 'half_open'))
);

CREATE TABLE biz.ai_budget_days (
    day DATE NOT NULL,
    slot SMALLINT NOT NULL,
    used BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    ceiling BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (day, slot)
) WITH (fillfactor = 50);

CREATE TABLE biz.ai_business_zone (
    one BOOLEAN DEFAULT true PRIMARY KEY,
    zone VARCHAR(60) NOT NULL,
    CONSTRAINT ai_business_zone_one_check CHECK (one)
);

CREATE TABLE biz.ai_cache (
    id BIGSERIAL PRIMARY KEY,
    cache_type VARCHAR(30) NOT NULL,
    site_id BIGINT NOT NULL,
    target_id VARCHAR(100) NOT NULL,
    result_json JSONB,
    triggered_by VARCHAR(100),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ,
    status VARCHAR(20) DEFAULT 'valid',
    CONSTRAINT ai_cache_status_check CHECK (status IN ('valid', 'expired', 'invalidated', 'generating')),
    CONSTRAINT ck_ai_cache_result CHECK (result_json IS NOT NULL OR status IN ('generating', 'expired'))
);
CREATE INDEX idx_ai_cache_age ON biz.ai_cache (cache_type, created_at) INCLUDE (id, status);
CREATE INDEX idx_ai_cache_expiry ON biz.ai_cache (expires_at) WHERE status IN ('valid', 'generating');
CREATE UNIQUE INDEX idx_ai_cache_generating ON biz.ai_cache (cache_type, site_id, target_id)
    WHERE status = 'generating';
CREATE INDEX idx_ai_cache_target ON biz.ai_cache (cache_type, site_id, target_id, created_at DESC);
CREATE UNIQUE INDEX idx_ai_cache_valid ON biz.ai_cache (cache_type, site_id, target_id) WHERE status = 'valid';

CREATE TABLE biz.ai_conversations (
    id BIGSERIAL PRIMARY KEY,
    user_id VARCHAR(100) NOT NULL,
    site_id BIGINT NOT NULL,
    entry VARCHAR(20) NOT NULL DEFAULT 'general',
    target_id VARCHAR(100),
    title VARCHAR(200),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    last_message_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    session_id VARCHAR(100),
    cloud_session_id VARCHAR(100),
    cloud_rounds INTEGER NOT NULL DEFAULT 0,
    cloud_used_at TIMESTAMPTZ,
    local_history BOOLEAN NOT NULL DEFAULT false,
    summary TEXT,
    summary_until BIGINT NOT NULL DEFAULT 0,
    cloud_tokens INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT ai_conversations_entry_check CHECK (entry IN ('general', 'task', 'customer', 'coach'))
);
CREATE INDEX idx_ai_conversations_reuse ON biz.ai_conversations
    (user_id, site_id, entry, target_id, last_message_at DESC);
CREATE UNIQUE INDEX idx_ai_conversations_session ON biz.ai_conversations (session_id);

CREATE TABLE biz.ai_processes (
    id UUID PRIMARY KEY,
    role VARCHAR(20) NOT NULL,
    host VARCHAR(200) NOT NULL,
    pid INTEGER NOT NULL,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE biz.ai_rate_windows (
    scope VARCHAR(20) NOT NULL,
    key VARCHAR(100) NOT NULL,
    span INTERVAL NOT NULL,
    hits TIMESTAMPTZ[] NOT NULL DEFAULT '{}',
    last_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key, span)
) WITH (fillfactor = 70);

CREATE TABLE biz.ai_run_logs (
    id BIGSERIAL PRIMARY KEY,
    site_id BIGINT NOT NULL,
    app_type VARCHAR(30) NOT NULL,
    trigger_type VARCHAR(20) NOT NULL,
    member_id BIGINT,
    request_prompt TEXT,
    response_text TEXT,
    tokens_used INTEGER DEFAULT 0,
    latency_ms INTEGER,
    status VARCHAR(20) NOT NULL DEFAULT 'pending',
    error_message TEXT,
    session_id VARCHAR(100),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    finished_at TIMESTAMPTZ,
    call_key UUID,
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
    tokens_prompt INTEGER NOT NULL DEFAULT 0,
    tokens_ceiling INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT ck_ai_run_logs_trigger_type CHECK (trigger_type IN ('user', 'scheduled', 'event', 'forced')),
    CONSTRAINT ck_ai_run_logs_prompt CHECK (char_length(request_prompt) <= 2000),
    CONSTRAINT ck_ai_run_logs_status CHECK (status IN ('pending', 'running', 'success', 'failed', 'timeout',
            'budget_exceeded', 'circuit_open', 'rate_limited')),
    CONSTRAINT ck_ai_run_logs_success CHECK (status <> 'success' OR (response_text IS NOT NULL
            AND tokens_used IS NOT NULL AND latency_ms IS NOT NULL AND finished_at IS NOT NULL)),
    CONSTRAINT ck_ai_run_logs_failed CHECK (status <> 'failed' OR error_message IS NOT NULL),
    UNIQUE (call_key)
);
CREATE INDEX idx_ai_run_logs_created ON biz.ai_run_logs (created_at);
CREATE INDEX idx_ai_run_logs_job ON biz.ai_run_logs (trigger_job_id) WHERE trigger_job_id IS NOT NULL;
CREATE INDEX idx_ai_run_logs_open ON biz.ai_run_logs (process_id) WHERE status IN ('pending', 'running');
CREATE INDEX idx_ai_run_logs_site_app ON biz.ai_run_logs (site_id, app_type);
CREATE INDEX idx_ai_run_logs_status ON biz.ai_run_logs (status);
CREATE UNIQUE INDEX idx_ai_run_logs_step_done ON biz.ai_run_logs (trigger_job_id, step)
    WHERE status = 'success' AND trigger_job_id IS NOT NULL;

CREATE TABLE biz.ai_schedules (
    name VARCHAR(60) PRIMARY KEY,
    last_due TIMESTAMPTZ NOT NULL
);

CREATE TABLE biz.ai_trigger_jobs (
    id BIGSERIAL PRIMARY KEY,
    site_id BIGINT NOT NULL,
    event_type VARCHAR(30) NOT NULL,
    connector_type VARCHAR(30) DEFAULT 'feiqiu',
    member_id BIGINT,
    payload JSONB,
    status VARCHAR(20) NOT NULL DEFAULT 'pending',
    is_forced BOOLEAN NOT NULL DEFAULT false,
    app_chain VARCHAR(100),
    started_at TIMESTAMPTZ,
    finished_at TIMESTAMPTZ,
    error_message TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    event_date DATE NOT NULL,
    claim INTEGER NOT NULL DEFAULT 0,
    rerun_of BIGINT,
    cancel_requested BOOLEAN NOT NULL DEFAULT false,
    schedule VARCHAR(60),
    idempotency_key VARCHAR(100),
    apps TEXT[],
    CONSTRAINT ck_ai_trigger_jobs_status CHECK (status IN ('pending', 'running', 'completed', 'failed',
            'skipped_duplicate', 'budget_exceeded', 'cancelled'))
);
CREATE INDEX idx_ai_trigger_jobs_created ON biz.ai_trigger_jobs (created_at);
CREATE UNIQUE INDEX idx_ai_trigger_jobs_dedup ON biz.ai_trigger_jobs
    (event_type, member_id, site_id, event_date) NULLS NOT DISTINCT
    WHERE NOT is_forced AND status <> 'skipped_duplicate';
CREATE UNIQUE INDEX idx_ai_trigger_jobs_key ON biz.ai_trigger_jobs (idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX idx_ai_trigger_jobs_site ON biz.ai_trigger_jobs (site_id, event_type);
CREATE INDEX idx_ai_trigger_jobs_status ON biz.ai_trigger_jobs (status);

CREATE TABLE biz.member_retention_clue (
    id BIGSERIAL PRIMARY KEY,
    site_id BIGINT NOT NULL,
    member_id BIGINT NOT NULL,
    summary TEXT NOT NULL,
    clues JSONB NOT NULL DEFAULT '[]',
    source VARCHAR(30) NOT NULL DEFAULT 'app8_consolidate',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    clue_date DATE NOT NULL,
    trigger_job_id BIGINT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX idx_member_retention_clue_day ON biz.member_retention_clue (site_id, member_id, clue_date);
CREATE INDEX idx_member_retention_clue_member ON biz.member_retention_clue (site_id, member_id);

CREATE TABLE biz.member_retention_clue_replaced (
    id BIGINT PRIMARY KEY,
    site_id BIGINT NOT NULL,
    member_id BIGINT NOT NULL,
    summary TEXT NOT NULL,
    clues JSONB NOT NULL DEFAULT '[]',
    source VARCHAR(30) NOT NULL DEFAULT 'app8_consolidate',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE biz.ai_messages (
    id BIGSERIAL PRIMARY KEY,
    conversation_id BIGINT NOT NULL,
    role VARCHAR(20) NOT NULL,
    content TEXT NOT NULL,
    tokens_used INTEGER DEFAULT 0,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    run_log_id BIGINT,
    CONSTRAINT ai_messages_role_check CHECK (role IN ('user', 'assistant', 'system')),
    CONSTRAINT ai_messages_conversation_id_fkey FOREIGN KEY (conversation_id)
            REFERENCES biz.ai_conversations (id) ON DELETE CASCADE
);
CREATE INDEX idx_ai_messages_conversation ON biz.ai_messages (conversation_id, id);
