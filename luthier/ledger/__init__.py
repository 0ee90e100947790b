"""Money: budgets, entries, the ledger, the store of calls, the meter that is the only way to a target, prices."""
