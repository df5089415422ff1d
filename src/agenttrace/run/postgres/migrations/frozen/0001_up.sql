CREATE TABLE biz.ai_conversations (
    id BIGSERIAL PRIMARY KEY,
    user_id VARCHAR(100) NOT NULL,
    site_id BIGINT NOT NULL,
    entry VARCHAR(20) NOT NULL DEFAULT 'general' CHECK (entry IN ('general', 'task', 'customer', 'coach')),
    target_id VARCHAR(100),
    title VARCHAR(200),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    last_message_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX idx_ai_conversations_reuse
    ON biz.ai_conversations(user_id, site_id, entry, target_id, last_message_at DESC);

CREATE TABLE biz.ai_messages (
    id BIGSERIAL PRIMARY KEY,
    conversation_id BIGINT NOT NULL REFERENCES biz.ai_conversations(id) ON DELETE CASCADE,
    role VARCHAR(20) NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    content TEXT NOT NULL,
    tokens_used INTEGER DEFAULT 0,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX idx_ai_messages_conversation ON biz.ai_messages(conversation_id, id);

CREATE TABLE biz.ai_cache (
    id BIGSERIAL PRIMARY KEY,
    cache_type VARCHAR(30) NOT NULL,
    site_id BIGINT NOT NULL,
    target_id VARCHAR(100) NOT NULL,
    result_json JSONB NOT NULL,
    triggered_by VARCHAR(100),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ
);
CREATE INDEX idx_ai_cache_target ON biz.ai_cache(cache_type, site_id, target_id, created_at DESC);

CREATE TABLE biz.member_retention_clue (
    id BIGSERIAL PRIMARY KEY,
    site_id BIGINT NOT NULL,
    member_id BIGINT NOT NULL,
    summary TEXT NOT NULL,
    clues JSONB NOT NULL DEFAULT '[]',
    source VARCHAR(30) NOT NULL DEFAULT 'app8_consolidate',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX idx_member_retention_clue_member ON biz.member_retention_clue(site_id, member_id);
