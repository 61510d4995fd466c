"""The progressive hash join: SHJ, XJoin, HMJ, PMJ and RPJ are settings of one mechanism."""
