"""Functions of revision 0003 that write in one round trip what would take several: results, clues, conversations.

Those that lock go on in statements of their own after it, because only a statement that begins once the lock is
ours sees what stands there then.
"""

from __future__ import annotations

CACHE = """
-- One writer a target at a time; the row to be replaced may not exist yet, so there is none to lock.
CREATE FUNCTION biz.ai_cache_lock(p_type TEXT, p_site BIGINT, p_target TEXT) RETURNS BOOLEAN LANGUAGE sql AS $$
    SELECT true FROM pg_advisory_xact_lock(hashtextextended(concat_ws(':', 'ai_cache', p_type, p_site, p_target), 0))
$$;

CREATE FUNCTION biz.ai_cache_begin(
    p_type TEXT, p_site BIGINT, p_target TEXT, p_by TEXT, p_lease DOUBLE PRECISION, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT generating BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    v_now TIMESTAMPTZ;
BEGIN
    -- Work that a crash of the server makes everybody forget is begun again.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM biz.ai_cache_lock(p_type, p_site, p_target);
    v_now := coalesce(p_now, clock_timestamp());
    -- A new row, not a renewed one: its former owner must not take it for its own.
    UPDATE biz.ai_cache SET status = 'expired'
        WHERE cache_type = p_type AND site_id = p_site AND target_id = p_target AND status = 'generating'
            AND expires_at <= v_now;
    INSERT INTO biz.ai_cache (cache_type, site_id, target_id, triggered_by, status, created_at, expires_at)
        VALUES (p_type, p_site, p_target, p_by, 'generating', v_now, v_now + make_interval(secs => p_lease))
        ON CONFLICT (cache_type, site_id, target_id) WHERE status = 'generating' DO NOTHING
        RETURNING id INTO generating;
END $$;

CREATE FUNCTION biz.ai_cache_store(
    p_type TEXT, p_site BIGINT, p_target TEXT, p_result JSONB, p_by TEXT, p_expires TIMESTAMPTZ,
    p_generating BIGINT DEFAULT NULL, p_now TIMESTAMPTZ DEFAULT NULL, OUT stored BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    v_now TIMESTAMPTZ;
BEGIN
    PERFORM biz.ai_cache_lock(p_type, p_site, p_target);
    v_now := coalesce(p_now, clock_timestamp());
    UPDATE biz.ai_cache SET status = 'expired'
        WHERE cache_type = p_type AND site_id = p_site AND target_id = p_target AND status = 'valid';
    IF p_generating IS NOT NULL THEN
        UPDATE biz.ai_cache
            SET status = 'valid', result_json = p_result, triggered_by = p_by, created_at = v_now,
                expires_at = p_expires
            WHERE id = p_generating AND cache_type = p_type AND site_id = p_site AND target_id = p_target
                AND status = 'generating'
            RETURNING id INTO stored;
    END IF;
    IF stored IS NULL THEN
        INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, triggered_by, created_at, expires_at)
            VALUES (p_type, p_site, p_target, p_result, p_by, v_now, p_expires) RETURNING id INTO stored;
    END IF;
END $$;
"""

CONVERSATIONS = """
-- The conversation that a message belongs to: the one with this id; or the latest one of the entry and target within
-- the window, locked, so that two first messages at the same moment find one; or a new one.
CREATE FUNCTION biz.ai_conversation_resolve(
    p_user TEXT, p_site BIGINT, p_entry TEXT, p_target TEXT, p_conversation BIGINT, p_window INTERVAL,
    p_title TEXT, p_message TEXT, p_idle INTERVAL, p_rounds INTEGER, p_messages BIGINT,
    OUT id BIGINT, OUT session_id TEXT, OUT is_new BOOLEAN, OUT cloud_session_id TEXT, OUT message_id BIGINT,
    OUT entry TEXT, OUT target_id TEXT, OUT history JSON
) LANGUAGE plpgsql AS $$
DECLARE
    c biz.ai_conversations;
BEGIN
    -- A crash that loses the question loses its turn; once that is settled, the question is on the disk as well.
    PERFORM set_config('synchronous_commit', 'off', true);
    is_new := false;
    IF p_conversation IS NOT NULL THEN
        SELECT t.* INTO c FROM biz.ai_conversations AS t
            WHERE t.id = p_conversation AND t.user_id = p_user AND t.site_id = p_site;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    ELSIF p_window IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(
            concat_ws(E'\\x1f', 'agenttrace', p_user, p_site, p_entry, coalesce(p_target, '')), 0));
        SELECT t.* INTO c FROM biz.ai_conversations AS t
            WHERE t.user_id = p_user AND t.site_id = p_site AND t.entry = p_entry
                AND t.target_id IS NOT DISTINCT FROM p_target AND t.last_message_at >= now() - p_window
            ORDER BY t.last_message_at DESC LIMIT 1;
    END IF;
    IF c.id IS NULL THEN
        is_new := true;
        c.id := nextval('biz.ai_conversations_id_seq');
        INSERT INTO biz.ai_conversations AS t (id, user_id, site_id, entry, target_id, title, session_id)
            VALUES (c.id, p_user, p_site, p_entry, p_target, p_title,
                    'conv_' || c.id || '_' || floor(extract(epoch FROM now()))::bigint)
            RETURNING t.* INTO c;
    END IF;
    id := c.id;
    session_id := c.session_id;
    entry := c.entry;
    target_id := c.target_id;
    IF c.cloud_session_id IS NOT NULL AND NOT c.local_history AND c.cloud_used_at >= now() - p_idle
            AND c.cloud_rounds < p_rounds THEN
        cloud_session_id := c.cloud_session_id;
    ELSIF NOT is_new THEN
        SELECT json_agg(json_build_array(m.role, m.content, m.run_log_id, m.id)) INTO history FROM (
            SELECT * FROM biz.ai_messages AS t WHERE t.conversation_id = c.id ORDER BY t.id DESC LIMIT p_messages
        ) AS m;
    END IF;
    IF p_message IS NOT NULL THEN
        INSERT INTO biz.ai_messages AS t (conversation_id, role, content) VALUES (c.id, 'user', p_message)
            RETURNING t.id INTO message_id;
    END IF;
END $$;
"""

CLUES = """
-- The document's DELETE + INSERT would let two writers at the same instant in; the unique day and one statement do not.
CREATE FUNCTION biz.ai_clue_write(
    p_site BIGINT, p_member BIGINT, p_day DATE, p_summary TEXT, p_clues JSONB, p_job BIGINT, OUT written BIGINT
) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO biz.member_retention_clue (site_id, member_id, clue_date, summary, clues, trigger_job_id)
        VALUES (p_site, p_member, p_day, p_summary, p_clues, p_job)
        ON CONFLICT (site_id, member_id, clue_date) DO UPDATE
            SET summary = excluded.summary, clues = excluded.clues, trigger_job_id = excluded.trigger_job_id,
                source = excluded.source, updated_at = clock_timestamp()
        RETURNING id INTO written;
END $$;
"""

ANSWERS = """
-- What became of a question: its answer, or (p_text NULL) nothing. Repeated after a commit whose acknowledgement was
-- lost, it changes nothing.
CREATE FUNCTION biz.ai_conversation_answer(
    p_log BIGINT, p_conversation BIGINT, p_question BIGINT, p_text TEXT, p_tokens INTEGER, p_cloud TEXT, p_sent TEXT,
    OUT message BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    v_rounds INTEGER := 0;
BEGIN
    UPDATE biz.ai_messages SET run_log_id = p_log WHERE id = p_question;
    IF p_text IS NULL THEN
        UPDATE biz.ai_conversations SET last_message_at = now() WHERE id = p_conversation;
        RETURN;
    END IF;
    SELECT m.id INTO message FROM biz.ai_messages AS m
        WHERE m.conversation_id = p_conversation AND m.id > p_question AND m.role = 'assistant'
            AND m.run_log_id = p_log;
    IF NOT FOUND THEN
        v_rounds := 1;
        INSERT INTO biz.ai_messages (conversation_id, role, content, tokens_used, run_log_id)
            VALUES (p_conversation, 'assistant', p_text, p_tokens, p_log) RETURNING id INTO message;
    END IF;
    UPDATE biz.ai_conversations AS c SET
        last_message_at = now(),
        cloud_session_id = p_cloud,
        cloud_used_at = now(),
        cloud_rounds = CASE WHEN c.cloud_session_id = p_cloud THEN c.cloud_rounds + v_rounds ELSE 1 END,
        -- Another turn at the same time has begun a session of its own: neither knows all.
        local_history = c.local_history OR p_cloud IS NULL
            OR coalesce(c.cloud_session_id NOT IN (p_cloud, coalesce(p_sent, '')), false)
        WHERE c.id = p_conversation;
END $$;
"""

DROPPED = """
DROP FUNCTION biz.ai_conversation_answer, biz.ai_conversation_resolve, biz.ai_clue_write, biz.ai_cache_store,
    biz.ai_cache_begin, biz.ai_cache_lock;
"""
