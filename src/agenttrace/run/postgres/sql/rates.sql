-- A sliding window of calls.

CREATE FUNCTION biz.ai_rate_hit(
    p_scope TEXT, p_key TEXT, p_limit INTEGER, p_window INTERVAL, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT allowed BOOLEAN, OUT retry_after DOUBLE PRECISION
) LANGUAGE plpgsql AS $$
DECLARE
    h TIMESTAMPTZ[];
    v_first INTEGER := 1;
    v_now TIMESTAMPTZ;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
        SELECT hits INTO h FROM biz.ai_rate_windows
            WHERE scope = p_scope AND key = p_key AND span = p_window FOR UPDATE;
        EXIT WHEN FOUND;
        -- Again and again: an idle window may be forgotten between these two.
        INSERT INTO biz.ai_rate_windows (scope, key, span, last_at)
            VALUES (p_scope, p_key, p_window, coalesce(p_now, clock_timestamp())) ON CONFLICT DO NOTHING;
    END LOOP;
    -- The clock is read once the row is ours, or a caller that waited would count from before its turn.
    v_now := coalesce(p_now, clock_timestamp());
    WHILE h[v_first] <= v_now - p_window LOOP
        v_first := v_first + 1;
    END LOOP;
    h := h[v_first:];
    allowed := cardinality(h) < p_limit;
    retry_after := 0;
    IF allowed THEN
        h := h || v_now;
        IF v_now < h[cardinality(h) - 1] THEN
            -- The clock was put back.
            h := ARRAY(SELECT t FROM unnest(h) AS t ORDER BY t);
        END IF;
        UPDATE biz.ai_rate_windows SET hits = h, last_at = greatest(last_at, v_now)
            WHERE scope = p_scope AND key = p_key AND span = p_window;
    ELSIF p_limit > 0 THEN
        retry_after := extract(epoch FROM h[cardinality(h) - p_limit + 1] + p_window - v_now);
    ELSE
        retry_after := extract(epoch FROM p_window);
    END IF;
END $$;
