ALTER TABLE biz.ai_conversations
    ADD COLUMN summary TEXT,
    -- The last message that the summary covers.
    ADD COLUMN summary_until BIGINT NOT NULL DEFAULT 0,
    -- About how many tokens of history the cloud's session was opened with.
    ADD COLUMN cloud_tokens INTEGER NOT NULL DEFAULT 0;

DROP FUNCTION biz.ai_conversation_resolve;
-- The conversation that a message belongs to: the one with this id; or the latest one of the entry and target within
-- the window, locked, so that two first messages at the same moment find one; or a new one.
CREATE FUNCTION biz.ai_conversation_resolve(
    p_user TEXT, p_site BIGINT, p_entry TEXT, p_target TEXT, p_conversation BIGINT, p_window INTERVAL,
    p_title TEXT, p_message TEXT, p_idle INTERVAL, p_rounds INTEGER, p_messages BIGINT,
    OUT id BIGINT, OUT session_id TEXT, OUT is_new BOOLEAN, OUT cloud_session_id TEXT, OUT message_id BIGINT,
    OUT entry TEXT, OUT target_id TEXT, OUT history JSON, OUT summary TEXT, OUT known_session_id TEXT,
    OUT cloud_tokens INTEGER
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
            concat_ws(E'\x1f', 'agenttrace', p_user, p_site, p_entry, coalesce(p_target, '')), 0));
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
    known_session_id := c.cloud_session_id;
    IF c.cloud_session_id IS NOT NULL AND NOT c.local_history AND c.cloud_used_at >= now() - p_idle
            AND c.cloud_rounds < p_rounds THEN
        cloud_session_id := c.cloud_session_id;
        cloud_tokens := c.cloud_tokens;
    ELSIF NOT is_new THEN
        summary := c.summary;
        SELECT json_agg(json_build_array(m.role, m.content, m.run_log_id, m.id)) INTO history FROM (
            SELECT * FROM biz.ai_messages AS t WHERE t.conversation_id = c.id AND t.id > c.summary_until
                ORDER BY t.id DESC LIMIT p_messages
        ) AS m;
    END IF;
    IF p_message IS NOT NULL THEN
        INSERT INTO biz.ai_messages AS t (conversation_id, role, content) VALUES (c.id, 'user', p_message)
            RETURNING t.id INTO message_id;
    END IF;
END $$;

DROP FUNCTION biz.ai_conversation_answer;
-- What became of a question: its answer, or (p_text NULL) nothing. Repeated after a commit whose acknowledgement was
-- lost, it changes nothing. p_known: the session that the conversation had when the question came. p_whole: it was
-- asked with all that had been said (p_sent_tokens of it), and not within a session.
CREATE FUNCTION biz.ai_conversation_answer(
    p_log BIGINT, p_conversation BIGINT, p_question BIGINT, p_text TEXT, p_tokens INTEGER, p_cloud TEXT, p_known TEXT,
    p_whole BOOLEAN, p_sent_tokens INTEGER, OUT message BIGINT
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
        cloud_tokens = CASE WHEN p_whole THEN p_sent_tokens ELSE c.cloud_tokens END,
        -- No session knows all: the history is sent next time. Another turn at the same time has begun one of its own,
        -- or this answer came from a session that did not know all.
        local_history = p_cloud IS NULL OR (c.local_history AND NOT p_whole)
            OR coalesce(c.cloud_session_id NOT IN (p_cloud, coalesce(p_known, '')), false)
        WHERE c.id = p_conversation;
END $$;
