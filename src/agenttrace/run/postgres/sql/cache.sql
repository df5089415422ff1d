-- Cached results: one valid row and one writer a target.

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
