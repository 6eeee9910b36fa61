;; Grows a table for ever; past its bound that is refused, and paid for.
;; ends: fuel
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (table 1 funcref)
  (func (export "flynn_route") (param $size i32) (result i64)
    (loop (drop (table.grow 0 (ref.null func) (i32.const 1))) (br 0))
    (i64.const 0)))
